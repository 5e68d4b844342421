// Package clients tests client-go and controller-runtime against the binaries that KUBEBUILDER_ASSETS names.
package clients

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// patience bounds what is waited for.
const patience = 3 * time.Minute

var environment *envtest.Environment

func TestMain(m *testing.M) {
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	if err := addToScheme(scheme.Scheme); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	environment = &envtest.Environment{
		CRDInstallOptions:     envtest.CRDInstallOptions{CRDs: []*apiextensions.CustomResourceDefinition{widgetDefinition()}},
		WebhookInstallOptions: webhooks(),
	}
	if _, err := environment.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "the environment does not start:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := environment.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "the environment does not stop:", err)
		code = 1
	}
	os.Exit(code)
}

// limited gives a context that ends with the test, and within the patience.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// typed gives clients of built-in resources.
func typed(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	return clients
}

// namespace makes a namespace for a test. It stays: no controller ends it.
func namespace(t *testing.T, ctx context.Context) string {
	t.Helper()
	made, err := typed(t, environment.Config).CoreV1().Namespaces().Create(ctx, named("clients-"), metav1.CreateOptions{})
	must(t, err)
	return made.Name
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}
