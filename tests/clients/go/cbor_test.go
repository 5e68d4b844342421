package clients

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	core "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/features"
	clientfeatures "k8s.io/client-go/features/testing"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// encodings notes the media types of what goes over the wire.
type encodings struct {
	rest http.RoundTripper
	lock sync.Mutex
	sent map[string]bool
	got  map[string]bool
}

func (e *encodings) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := e.rest.RoundTrip(request)
	e.lock.Lock()
	defer e.lock.Unlock()
	if request.Body != nil && request.Body != http.NoBody {
		e.sent[request.Header.Get("Content-Type")] = true
	}
	if err == nil {
		e.got[response.Header.Get("Content-Type")] = true
	}
	return response, err
}

func (e *encodings) names() (sent, got string) {
	e.lock.Lock()
	defer e.lock.Unlock()
	sorted := func(names map[string]bool) string {
		return strings.Join(slices.Sorted(maps.Keys(names)), " ")
	}
	return sorted(e.sent), sorted(e.got)
}

// noting gives a configuration of clients that prefer CBOR, and what they send and get.
func noting(t *testing.T, config *rest.Config) (*rest.Config, *encodings) {
	t.Helper()
	noted := &encodings{sent: map[string]bool{}, got: map[string]bool{}}
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "", ""
	config.Wrap(func(rest http.RoundTripper) http.RoundTripper {
		noted.rest = rest
		return noted
	})
	return config, noted
}

// speakingCBOR starts a server whose gate for CBOR is on, and has clients prefer it.
func speakingCBOR(t *testing.T) *rest.Config {
	t.Helper()
	server := &envtest.Environment{
		CRDInstallOptions: envtest.CRDInstallOptions{CRDs: []*apiextensions.CustomResourceDefinition{widgetDefinition()}},
	}
	server.ControlPlane.GetAPIServer().Configure().Append("feature-gates", "CBORServingAndStorage=true")
	config, err := server.Start()
	must(t, err)
	t.Cleanup(func() { must(t, server.Stop()) })
	// The environment makes definitions by clients that do not know CBOR.
	clientfeatures.SetFeatureDuringTest(t, features.ClientsAllowCBOR, true)
	clientfeatures.SetFeatureDuringTest(t, features.ClientsPreferCBOR, true)
	return config
}

func TestClientsSpeakCBOR(t *testing.T) {
	config := speakingCBOR(t)
	t.Run("dynamic", func(t *testing.T) { dynamicInCBOR(t, limited(t), config) })
	t.Run("typed", func(t *testing.T) { typedInCBOR(t, limited(t), config) })
}

func dynamicInCBOR(t *testing.T, ctx context.Context, config *rest.Config) {
	config, noted := noting(t, config)
	clients, err := dynamic.NewForConfig(config)
	must(t, err)
	widgets := clients.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}).Namespace("default")
	configMaps := clients.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	named := func(kind, apiVersion, name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name, "labels": map[string]any{"x": "y"}},
		}}
	}
	_, err = widgets.Create(ctx, named("Widget", group+"/v1", "a"), metav1.CreateOptions{})
	must(t, err)
	_, err = widgets.Create(ctx, named("Widget", group+"/v1", "a"), metav1.CreateOptions{})
	equal(t, "already exists", apierrors.IsAlreadyExists(err), true)
	made := named("ConfigMap", "v1", "a")
	// Text that JSON escapes, and bytes that it encodes.
	made.Object["data"] = map[string]any{"value": "\u2028<&>\x00"}
	made.Object["binaryData"] = map[string]any{"bytes": "AAH/"}
	created, err := configMaps.Create(ctx, made, metav1.CreateOptions{})
	must(t, err)
	value, _, _ := unstructured.NestedString(created.Object, "data", "value")
	equal(t, "value", value, "\u2028<&>\x00")
	bytes, _, _ := unstructured.NestedString(created.Object, "binaryData", "bytes")
	equal(t, "bytes", bytes, "AAH/")

	events, err := configMaps.Watch(ctx, metav1.ListOptions{ResourceVersion: created.GetResourceVersion(), LabelSelector: "x=y"})
	must(t, err)
	defer events.Stop()
	must(t, unstructured.SetNestedField(created.Object, "2", "data", "value"))
	_, err = configMaps.Update(ctx, created, metav1.UpdateOptions{})
	must(t, err)
	event := next(t, ctx, events.ResultChan())
	equal(t, "event", event.Type, watch.Modified)
	value, _, _ = unstructured.NestedString(event.Object.(*unstructured.Unstructured).Object, "data", "value")
	equal(t, "watched", value, "2")

	applied := named("ConfigMap", "v1", "a")
	applied.Object["data"] = map[string]any{"own": "3"}
	after, err := configMaps.Apply(ctx, "a", applied, metav1.ApplyOptions{FieldManager: "clients"})
	must(t, err)
	data, _, _ := unstructured.NestedStringMap(after.Object, "data")
	equal(t, "applied", fmt.Sprint(data), "map[own:3 value:2]")
	after, err = configMaps.Patch(ctx, "a", types.MergePatchType, []byte(`{"data":{"own":null}}`), metav1.PatchOptions{})
	must(t, err)
	data, _, _ = unstructured.NestedStringMap(after.Object, "data")
	equal(t, "patched", fmt.Sprint(data), "map[value:2]")
	list, err := configMaps.List(ctx, metav1.ListOptions{LabelSelector: "x=y"})
	must(t, err)
	equal(t, "items", len(list.Items), 1)
	must(t, configMaps.Delete(ctx, "a", metav1.DeleteOptions{}))
	_, err = configMaps.Get(ctx, "a", metav1.GetOptions{})
	equal(t, "not found", apierrors.IsNotFound(err), true)

	sent, got := noted.names()
	equal(t, "sent", sent, "application/apply-patch+cbor application/cbor application/merge-patch+json")
	equal(t, "got", got, "application/cbor application/cbor-seq")
}

func typedInCBOR(t *testing.T, ctx context.Context, config *rest.Config) {
	config, noted := noting(t, config)
	// Generated clients of built-in kinds prefer protobuf unless they are told otherwise.
	config.ContentType, config.AcceptContentTypes = "application/cbor", "application/cbor"
	clients := typed(t, config)
	secrets := clients.CoreV1().Secrets("default")
	made, err := secrets.Create(ctx, &core.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string][]byte{"bytes": {0, 1, 255}},
	}, metav1.CreateOptions{})
	must(t, err)
	equal(t, "bytes", fmt.Sprint(made.Data["bytes"]), "[0 1 255]")
	events, err := secrets.Watch(ctx, metav1.ListOptions{ResourceVersion: made.ResourceVersion})
	must(t, err)
	defer events.Stop()
	changed := made.DeepCopy()
	changed.Data["bytes"] = []byte{2}
	_, err = secrets.Update(ctx, changed, metav1.UpdateOptions{})
	must(t, err)
	equal(t, "watched", fmt.Sprint(next(t, ctx, events.ResultChan()).Object.(*core.Secret).Data["bytes"]), "[2]")
	_, err = secrets.Update(ctx, made, metav1.UpdateOptions{})
	equal(t, "conflict", apierrors.IsConflict(err), true)
	list, err := secrets.List(ctx, metav1.ListOptions{})
	must(t, err)
	equal(t, "items", len(list.Items), 1)
	equal(t, "time", list.Items[0].CreationTimestamp.Equal(&made.CreationTimestamp), true)

	deployments := clients.AppsV1().Deployments("default")
	_, err = deployments.Create(ctx, deployment("web"), metav1.CreateOptions{})
	must(t, err)
	scale, err := deployments.GetScale(ctx, "web", metav1.GetOptions{})
	must(t, err)
	scale.Spec.Replicas = 3
	_, err = deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{})
	must(t, err)
	wanted := appsapply.Deployment("web", "default").WithSpec(appsapply.DeploymentSpec().WithMinReadySeconds(5))
	applied, err := deployments.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: "clients"})
	must(t, err)
	equal(t, "ready", applied.Spec.MinReadySeconds, 5)
	equal(t, "replicas", *applied.Spec.Replicas, 3)
	_, err = secrets.Create(ctx, &core.Secret{ObjectMeta: metav1.ObjectMeta{Name: "Not A Name"}}, metav1.CreateOptions{})
	equal(t, "invalid", apierrors.IsInvalid(err), true)
	must(t, secrets.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))

	sent, got := noted.names()
	equal(t, "sent", sent, "application/apply-patch+cbor application/cbor")
	equal(t, "got", got, "application/cbor application/cbor-seq")
}
