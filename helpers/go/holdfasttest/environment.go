package holdfasttest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Environment returns an environment of controller-runtime that uses Holdfast. The caller sets further fields, starts it
// and stops it. As in envtest, no controllers run unless an option selects them.
func Environment(options ...Option) (*envtest.Environment, error) {
	environment := &envtest.Environment{}
	return environment, Prepare(environment, options...)
}

// Prepare makes an environment use Holdfast instead of kube-apiserver and etcd. It has precedence over KUBEBUILDER_ASSETS.
func Prepare(environment *envtest.Environment, options ...Option) error {
	chosen := newOptions(options)
	binary, err := FindBinary(chosen.binary)
	if err != nil {
		return err
	}
	assets, err := makeAssets(binary)
	if err != nil {
		return err
	}
	server := environment.ControlPlane.GetAPIServer()
	server.Path = filepath.Join(assets, "kube-apiserver")
	if environment.ControlPlane.Etcd == nil {
		environment.ControlPlane.Etcd = &envtest.Etcd{}
	}
	environment.ControlPlane.Etcd.Path = filepath.Join(assets, "etcd")
	flags := server.Configure()
	for _, flag := range chosen.flags() {
		name, value, found := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		if !found {
			value = "true"
		}
		flags.Set(name, value)
	}
	return nil
}

// makeAssets returns a directory with the programs that envtest starts. It has one directory for each path of a binary.
func makeAssets(binary string) (string, error) {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	parent := filepath.Join(cache, "holdfast")
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(binary))
	assets := filepath.Join(parent, "envtest-"+hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err == nil {
		return assets, nil
	}
	// Tests of several packages run at the same time. The first one to rename its directory makes it for all.
	own, err := os.MkdirTemp(parent, "new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(own)
	if output, err := exec.Command(binary, "envtest", "--dir", own).CombinedOutput(); err != nil {
		return "", fmt.Errorf("holdfast envtest: %w: %s", err, output)
	}
	if err := os.Rename(own, assets); err != nil {
		if _, missing := os.Stat(filepath.Join(assets, "kube-apiserver")); missing != nil {
			return "", err
		}
	}
	return assets, nil
}
