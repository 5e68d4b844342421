// Package examples tests a controller with Holdfast.
package examples

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/holdfast-project/holdfast/helpers/go/holdfasttest"
)

// Labeler labels each ConfigMap.
type Labeler struct{ client.Client }

func (l Labeler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var settings corev1.ConfigMap
	if err := l.Get(ctx, request.NamespacedName, &settings); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if settings.Labels["seen"] == "true" {
		return ctrl.Result{}, nil
	}
	settings.Labels = map[string]string{"seen": "true"}
	return ctrl.Result{}, l.Update(ctx, &settings)
}

func TestLabelerRetriesAfterConflict(t *testing.T) {
	server := holdfasttest.Start(t)
	namespace := server.Namespace(t)
	manager, err := ctrl.NewManager(server.Config(), ctrl.Options{
		Scheme:  scheme.Scheme,
		Metrics: metrics.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Complete(Labeler{manager.GetClient()}); err != nil {
		t.Fatal(err)
	}
	go manager.Start(t.Context())

	// The first update fails with a conflict.
	fault, err := server.AddFault(t.Context(), holdfasttest.Fault{
		Match:  holdfasttest.Match{Verbs: []string{"update"}, Resource: "configmaps", Namespace: namespace, Name: "settings"},
		Count:  1,
		Action: holdfasttest.Fail(409),
	})
	if err != nil {
		t.Fatal(err)
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: namespace}}
	if err := manager.GetClient().Create(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); settings.Labels["seen"] != "true"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the ConfigMap has no label")
		}
		if err := manager.GetAPIReader().Get(t.Context(), client.ObjectKeyFromObject(settings), settings); err != nil {
			t.Fatal(err)
		}
	}
	if fault, err = server.GetFault(t.Context(), fault.ID); err != nil || fault.Status.Fired != 1 {
		t.Fatalf("the fault fired %d times: %v", fault.Status.Fired, err)
	}
}
