// Package kubebuilder imports what the tests of a project made by kubebuilder import, so that go.mod pins it.
package kubebuilder

import (
	_ "github.com/onsi/ginkgo/v2"
	_ "github.com/onsi/gomega"
)
