package holdfasttest_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/helpers/go/holdfasttest"
)

func clients(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	made, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func createConfigMap(t *testing.T, config *rest.Config, namespace, name string) error {
	t.Helper()
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := clients(t, config).CoreV1().ConfigMaps(namespace).Create(t.Context(), settings, metav1.CreateOptions{})
	return err
}

func hasConfigMap(t *testing.T, config *rest.Config, namespace, name string) bool {
	t.Helper()
	_, err := clients(t, config).CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestServersHaveObjectsOfTheirOwn(t *testing.T) {
	first, second := holdfasttest.Start(t), holdfasttest.Start(t)
	must(t, createConfigMap(t, first.Config(), "default", "settings"))
	if !hasConfigMap(t, first.Config(), "default", "settings") || hasConfigMap(t, second.Config(), "default", "settings") {
		t.Fatal("the ConfigMap is not only in the first server")
	}
}

func TestStoppedServerIsGone(t *testing.T) {
	server, err := holdfasttest.New()
	must(t, err)
	config := server.Config()
	must(t, server.Stop())
	must(t, server.Stop())
	if _, err := clients(t, config).Discovery().ServerVersion(); err == nil {
		t.Fatal("it still serves")
	}
}

func TestInvalidFlagIsPartOfTheError(t *testing.T) {
	_, err := holdfasttest.New(holdfasttest.WithArgs("--no-such-flag"))
	if err == nil || !strings.Contains(err.Error(), "--no-such-flag") {
		t.Fatal(err)
	}
}

func TestControllersAreSelected(t *testing.T) {
	server := holdfasttest.Start(t, holdfasttest.WithControllers())
	namespaces := clients(t, server.Config()).CoreV1().Namespaces()
	name := server.Namespace(t)
	must(t, namespaces.Delete(t.Context(), name, metav1.DeleteOptions{}))
	namespace, err := namespaces.Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	if namespace.Status.Phase != corev1.NamespaceTerminating {
		t.Fatal(namespace.Status.Phase)
	}
}

func TestFaultFiresUntilItsCount(t *testing.T) {
	server := holdfasttest.Start(t)
	core := ""
	fault, err := server.AddFault(t.Context(), holdfasttest.Fault{
		Match:  holdfasttest.Match{Verbs: []string{"create"}, Group: &core, Resource: "configmaps"},
		Count:  1,
		Action: holdfasttest.Fail(503),
	})
	must(t, err)
	if err := createConfigMap(t, server.Config(), "default", "settings"); !apierrors.IsServiceUnavailable(err) {
		t.Fatal(err)
	}
	must(t, createConfigMap(t, server.Config(), "default", "settings"))
	fault, err = server.RemoveFault(t.Context(), fault.ID)
	must(t, err)
	if fault.Status.Matched != 2 || fault.Status.Fired != 1 {
		t.Fatalf("%+v", fault.Status)
	}
	if _, err := server.GetFault(t.Context(), fault.ID); !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

func TestInvalidFaultIsAStatusError(t *testing.T) {
	server := holdfasttest.Start(t)
	_, err := server.AddFault(t.Context(), holdfasttest.Fault{Action: holdfasttest.Fail(200)})
	if !apierrors.IsBadRequest(err) {
		t.Fatal(err)
	}
}

func TestRestoreDeletesLaterObjects(t *testing.T) {
	server := holdfasttest.Start(t, holdfasttest.WithControllers())
	kept, err := server.Keep(t.Context(), "start")
	must(t, err)
	must(t, createConfigMap(t, server.Config(), "default", "settings"))
	restored, err := server.Restore(t.Context(), kept.Name, holdfasttest.Expire)
	must(t, err)
	// The server may have created objects of its own since the checkpoint.
	if restored.Deleted < 1 || hasConfigMap(t, server.Config(), "default", "settings") {
		t.Fatalf("%+v", restored)
	}
	must(t, server.Forget(t.Context(), kept.Name))
	if list, err := server.Checkpoints(t.Context()); err != nil || len(list) != 0 {
		t.Fatal(list, err)
	}
}

func TestIsolatedTestLeavesNothing(t *testing.T) {
	server := holdfasttest.Start(t)
	t.Run("isolated", func(t *testing.T) {
		server.Isolate(t)
		must(t, createConfigMap(t, server.Config(), "default", "settings"))
		_, err := server.AddFault(t.Context(), holdfasttest.Fault{Skip: 1000, Action: holdfasttest.Fail(500)})
		must(t, err)
	})
	if hasConfigMap(t, server.Config(), "default", "settings") {
		t.Fatal("the ConfigMap is still there")
	}
	if faults, err := server.Faults(t.Context()); err != nil || len(faults) != 0 {
		t.Fatal(faults, err)
	}
}

func TestForkHasTheStateOfItsCheckpoint(t *testing.T) {
	server := holdfasttest.Start(t)
	must(t, createConfigMap(t, server.Config(), "default", "before"))
	_, err := server.Keep(t.Context(), "start")
	must(t, err)
	must(t, createConfigMap(t, server.Config(), "default", "after"))
	fork, err := server.Fork(t.Context(), "start")
	must(t, err)
	if !hasConfigMap(t, fork.Config(), "default", "before") || hasConfigMap(t, fork.Config(), "default", "after") {
		t.Fatal("the fork has another state")
	}
	must(t, createConfigMap(t, fork.Config(), "default", "of-fork"))
	if hasConfigMap(t, server.Config(), "default", "of-fork") {
		t.Fatal("a write to the fork is in the first server")
	}
	must(t, fork.Stop(t.Context()))
	if err := createConfigMap(t, fork.Config(), "default", "late"); err == nil {
		t.Fatal("the fork still serves")
	}
}

func TestAdvanceMovesTheClock(t *testing.T) {
	server := holdfasttest.Start(t)
	clock, err := server.Advance(t.Context(), 90*time.Minute)
	must(t, err)
	if clock.Advanced.Duration != 90*time.Minute {
		t.Fatal(clock.Advanced)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "late"}}
	lease, err = clients(t, server.Config()).CoordinationV1().Leases("default").Create(t.Context(), lease, metav1.CreateOptions{})
	must(t, err)
	if ahead := time.Until(lease.CreationTimestamp.Time); ahead < 80*time.Minute {
		t.Fatal(ahead)
	}
	clock, err = server.Clock(t.Context())
	must(t, err)
	if time.Until(clock.Now.Time) < 80*time.Minute {
		t.Fatal(clock.Now)
	}
}

// recorder is a failed test.
type recorder struct {
	testing.TB
	cleanups []func()
	logs     []string
}

func (r *recorder) Helper()            {}
func (r *recorder) Failed() bool       { return true }
func (r *recorder) Cleanup(end func()) { r.cleanups = append(r.cleanups, end) }
func (r *recorder) Logf(format string, values ...any) {
	for _, value := range values {
		if text, ok := value.(string); ok {
			r.logs = append(r.logs, text)
		}
	}
}

func TestFailedTestLogsTheTimelineOfItsNamespace(t *testing.T) {
	server := holdfasttest.Start(t)
	namespace := server.Namespace(t)
	failed := &recorder{TB: t}
	server.ReportOnFailure(failed, namespace)
	must(t, createConfigMap(t, server.Config(), namespace, "settings"))
	must(t, createConfigMap(t, server.Config(), "default", "other"))
	for _, end := range failed.cleanups {
		end()
	}
	logged := strings.Join(failed.logs, "\n")
	if !strings.Contains(logged, "settings") || strings.Contains(logged, "other") {
		t.Fatal(logged)
	}
}

func TestEnvironmentUsesHoldfast(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", "/nonexistent")
	environment, err := holdfasttest.Environment(holdfasttest.WithControllers("*"))
	must(t, err)
	environment.ControlPlaneStartTimeout, environment.ControlPlaneStopTimeout = 2*time.Minute, 2*time.Minute
	environment.CRDs = append(environment.CRDs, widgets())
	config, err := environment.Start()
	must(t, err)
	t.Cleanup(func() { must(t, environment.Stop()) })
	controls, err := holdfasttest.NewControls(config)
	must(t, err)
	controls.Isolate(t)
	through, err := client.New(config, client.Options{})
	must(t, err)
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: "default"}}
	must(t, through.Create(t.Context(), settings))
	_, err = controls.AddFault(t.Context(), holdfasttest.Fault{
		Match:  holdfasttest.Match{Verbs: []string{"delete"}, Resource: "configmaps"},
		Count:  1,
		Action: holdfasttest.Fail(409),
	})
	must(t, err)
	if err := through.Delete(t.Context(), settings); !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
	must(t, through.Delete(t.Context(), settings))
	resources, err := clients(t, config).Discovery().ServerResourcesForGroupVersion("example.com/v1")
	must(t, err)
	if len(resources.APIResources) == 0 {
		t.Fatal("the CRD is not served")
	}
}

func TestBinaryIsFoundInOrder(t *testing.T) {
	_, source, _, _ := runtime.Caller(0)
	folder := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(folder, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700))
		return path
	}
	explicit, variable, inPath := file("explicit"), file("variable"), file("path/holdfast")
	found := func(path, want string) {
		t.Helper()
		if got, err := holdfasttest.FindBinary(path); err != nil || got != want {
			t.Fatal(got, err)
		}
	}
	t.Setenv("PATH", filepath.Dir(inPath))
	t.Setenv(holdfasttest.BinaryVariable, variable)
	found(explicit, explicit)
	found("", variable)
	t.Setenv(holdfasttest.BinaryVariable, "")
	found("", inPath)
	t.Setenv("PATH", filepath.Dir(source))
	if _, err := holdfasttest.FindBinary(""); !errors.Is(err, holdfasttest.ErrNoBinary) {
		t.Fatal(err)
	}
	if _, err := holdfasttest.FindBinary(filepath.Join(folder, "missing")); err == nil {
		t.Fatal("a missing binary is found")
	}
}
