package clients

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/features"
	clientfeatures "k8s.io/client-go/features/testing"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/remotecommand"
	watchtools "k8s.io/client-go/tools/watch"
)

func named(prefix string) *core.Namespace {
	return &core.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
}

func configMap(name, value string) *core.ConfigMap {
	return &core.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"made-by": "clients"}},
		Data:       map[string]string{"value": value},
	}
}

func deployment(name string) *apps.Deployment {
	labels := map[string]string{"app": name}
	return &apps.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apps.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: core.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       core.PodSpec{Containers: []core.Container{{Name: "main", Image: "example.com/main:1"}}},
			},
		},
	}
}

func TestTypedClientsInEachEncoding(t *testing.T) {
	for _, encoding := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		t.Run(encoding, func(t *testing.T) {
			ctx := limited(t)
			config := rest.CopyConfig(environment.Config)
			config.ContentType = encoding
			config.AcceptContentTypes = encoding
			clients, in := typed(t, config), namespace(t, ctx)
			maps := clients.CoreV1().ConfigMaps(in)
			first, err := maps.Create(ctx, configMap("a", "1"), metav1.CreateOptions{})
			must(t, err)
			_, err = maps.Create(ctx, configMap("a", "1"), metav1.CreateOptions{})
			equal(t, "already exists", apierrors.IsAlreadyExists(err), true)
			changed := first.DeepCopy()
			changed.Data["value"] = "2"
			changed, err = maps.Update(ctx, changed, metav1.UpdateOptions{})
			must(t, err)
			_, err = maps.Update(ctx, first, metav1.UpdateOptions{})
			equal(t, "conflict", apierrors.IsConflict(err), true)
			patch := []byte(`{"data":{"other":"3"}}`)
			for _, kind := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
				changed, err = maps.Patch(ctx, "a", kind, patch, metav1.PatchOptions{})
				must(t, err)
			}
			equal(t, "data", fmt.Sprint(changed.Data), "map[other:3 value:2]")

			for _, name := range []string{"b", "c", "d"} {
				_, err = maps.Create(ctx, configMap(name, "1"), metav1.CreateOptions{})
				must(t, err)
			}
			options := metav1.ListOptions{LabelSelector: "made-by=clients", Limit: 3}
			var names []string
			for {
				page, err := maps.List(ctx, options)
				must(t, err)
				for _, item := range page.Items {
					names = append(names, item.Name)
				}
				if options.Continue = page.Continue; options.Continue == "" {
					break
				}
			}
			equal(t, "names", strings.Join(names, " "), "a b c d")

			made, err := clients.AppsV1().Deployments(in).Create(ctx, deployment("web"), metav1.CreateOptions{})
			must(t, err)
			equal(t, "defaulted replicas", *made.Spec.Replicas, 1)
			made.Status.ObservedGeneration = 1
			_, err = clients.AppsV1().Deployments(in).UpdateStatus(ctx, made, metav1.UpdateOptions{})
			must(t, err)
			scale, err := clients.AppsV1().Deployments(in).GetScale(ctx, "web", metav1.GetOptions{})
			must(t, err)
			scale.Spec.Replicas = 3
			_, err = clients.AppsV1().Deployments(in).UpdateScale(ctx, "web", scale, metav1.UpdateOptions{})
			must(t, err)

			must(t, maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "made-by=clients"}))
			_, err = maps.Get(ctx, "a", metav1.GetOptions{})
			equal(t, "not found", apierrors.IsNotFound(err), true)
			_, err = maps.Create(ctx, configMap("Not A Name", ""), metav1.CreateOptions{})
			equal(t, "invalid", apierrors.IsInvalid(err), true)
		})
	}
}

func TestDynamicAndMetadataClients(t *testing.T) {
	ctx := limited(t)
	in := namespace(t, ctx)
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	clients, err := dynamic.NewForConfig(environment.Config)
	must(t, err)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "a", "labels": map[string]any{"x": "y"}},
		"data":     map[string]any{"value": "1"},
	}}
	_, err = clients.Resource(resource).Namespace(in).Create(ctx, object, metav1.CreateOptions{})
	must(t, err)
	object.Object["data"] = map[string]any{"value": "2"}
	applied, err := clients.Resource(resource).Namespace(in).Apply(ctx, "a", object, metav1.ApplyOptions{FieldManager: "clients", Force: true})
	must(t, err)
	value, _, _ := unstructured.NestedString(applied.Object, "data", "value")
	equal(t, "applied", value, "2")

	partial, err := metadata.NewForConfig(environment.Config)
	must(t, err)
	list, err := partial.Resource(resource).Namespace(in).List(ctx, metav1.ListOptions{LabelSelector: "x"})
	must(t, err)
	equal(t, "items", len(list.Items), 1)
	equal(t, "label", list.Items[0].Labels["x"], "y")
	must(t, partial.Resource(resource).Namespace(in).Delete(ctx, "a", metav1.DeleteOptions{}))
}

// A client that prefers CBOR learns from its first request that the server's gate for it is off, which is the default of 1.36,
// and goes on in JSON.
func TestClientsThatPreferCBOR(t *testing.T) {
	clientfeatures.SetFeatureDuringTest(t, features.ClientsAllowCBOR, true)
	clientfeatures.SetFeatureDuringTest(t, features.ClientsPreferCBOR, true)
	ctx := limited(t)
	in := namespace(t, ctx)
	clients, err := dynamic.NewForConfig(environment.Config)
	must(t, err)
	resource := clients.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}).Namespace(in)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": "Widget", "metadata": map[string]any{"generateName": "a-"},
	}}
	_, err = resource.Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	equal(t, "unsupported", apierrors.IsUnsupportedMediaType(err), true)
	_, err = resource.List(ctx, metav1.ListOptions{})
	must(t, err)
}

func TestInformersFollow(t *testing.T) {
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprintf("watch-list=%v", streams), func(t *testing.T) {
			clientfeatures.SetFeatureDuringTest(t, features.WatchListClient, streams)
			ctx := limited(t)
			in := namespace(t, ctx)
			clients := typed(t, environment.Config)
			maps := clients.CoreV1().ConfigMaps(in)
			for _, name := range []string{"a", "b"} {
				_, err := maps.Create(ctx, configMap(name, "1"), metav1.CreateOptions{})
				must(t, err)
			}
			factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(in))
			seen := make(chan string, 100)
			informer := factory.Core().V1().ConfigMaps()
			_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc:    func(object any) { seen <- "+" + object.(*core.ConfigMap).Name },
				UpdateFunc: func(_, object any) { seen <- "=" + object.(*core.ConfigMap).Data["value"] },
				DeleteFunc: func(object any) { seen <- "-" + object.(*core.ConfigMap).Name },
			})
			must(t, err)
			factory.Start(ctx.Done())
			for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
				equal(t, kind.String(), synced, true)
			}
			first := []string{next(t, ctx, seen), next(t, ctx, seen)}
			slices.Sort(first)
			equal(t, "first", strings.Join(first, " "), "+a +b")
			_, err = maps.Update(ctx, configMap("a", "2"), metav1.UpdateOptions{})
			must(t, err)
			equal(t, "update", next(t, ctx, seen), "=2")
			must(t, maps.Delete(ctx, "b", metav1.DeleteOptions{}))
			equal(t, "delete", next(t, ctx, seen), "-b")
			_, err = informer.Lister().ConfigMaps(in).Get("b")
			equal(t, "gone", apierrors.IsNotFound(err), true)
		})
	}
}

func next[T any](t *testing.T, ctx context.Context, values <-chan T) T {
	t.Helper()
	select {
	case value := <-values:
		return value
	case <-ctx.Done():
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func TestApplyConfigurations(t *testing.T) {
	ctx := limited(t)
	in := namespace(t, ctx)
	deployments := typed(t, environment.Config).AppsV1().Deployments(in)
	labels := map[string]string{"app": "web"}
	wanted := func(image string) *appsapply.DeploymentApplyConfiguration {
		container := coreapply.Container().WithName("main").WithImage(image)
		template := coreapply.PodTemplateSpec().WithLabels(labels).WithSpec(coreapply.PodSpec().WithContainers(container))
		selector := metaapply.LabelSelector().WithMatchLabels(labels)
		return appsapply.Deployment("web", in).WithSpec(appsapply.DeploymentSpec().WithSelector(selector).WithTemplate(template))
	}
	made, err := deployments.Apply(ctx, wanted("example.com/main:1"), metav1.ApplyOptions{FieldManager: "alpha"})
	must(t, err)
	_, err = deployments.Apply(ctx, wanted("example.com/main:2"), metav1.ApplyOptions{FieldManager: "bravo"})
	equal(t, "conflict", apierrors.IsConflict(err), true)
	if !strings.Contains(err.Error(), `conflict with "alpha": .spec.template.spec.containers[name="main"].image`) {
		t.Fatal(err)
	}
	_, err = deployments.Apply(ctx, wanted("example.com/main:2"), metav1.ApplyOptions{FieldManager: "bravo", Force: true})
	must(t, err)
	extracted, err := appsapply.ExtractDeployment(made, "alpha")
	must(t, err)
	equal(t, "extracted", *extracted.Spec.Template.Spec.Containers[0].Image, "example.com/main:1")
}

func TestLeadersAreElectedAndFollowed(t *testing.T) {
	ctx := limited(t)
	in := namespace(t, ctx)
	clients := typed(t, environment.Config)
	leading := make(chan string, 10)
	elect := func(ctx context.Context, name string) {
		lock, err := resourcelock.New(resourcelock.LeasesResourceLock, in, "lock", clients.CoreV1(), clients.CoordinationV1(),
			resourcelock.ResourceLockConfig{Identity: name})
		must(t, err)
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true,
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 100 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) { leading <- name; <-ctx.Done() },
				OnStoppedLeading: func() {},
			},
		})
	}
	firstTerm, end := context.WithCancel(ctx)
	go elect(firstTerm, "first")
	equal(t, "leader", next(t, ctx, leading), "first")
	go elect(ctx, "second")
	end()
	equal(t, "leader", next(t, ctx, leading), "second")
}

func TestEventsAreRecorded(t *testing.T) {
	ctx := limited(t)
	in := namespace(t, ctx)
	clients := typed(t, environment.Config)
	about, err := clients.CoreV1().ConfigMaps(in).Create(ctx, configMap("a", "1"), metav1.CreateOptions{})
	must(t, err)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clients.EventsV1()})
	must(t, broadcaster.StartRecordingToSinkWithContext(ctx))
	recorder := broadcaster.NewRecorder(scheme.Scheme, "clients")
	recorder.Eventf(about, nil, core.EventTypeNormal, "Tested", "Testing", "note %d", 1)
	source := cache.NewListWatchFromClient(clients.CoreV1().RESTClient(), "events", in, fields.Everything())
	watched, err := watchtools.UntilWithSync(ctx, source, &core.Event{}, nil,
		func(event watch.Event) (bool, error) { return event.Type == watch.Added, nil })
	must(t, err)
	event := watched.Object.(*core.Event)
	equal(t, "reason", event.Reason, "Tested")
	equal(t, "message", event.Message, "note 1")
	equal(t, "about", event.InvolvedObject.UID, about.UID)
}

func TestDiscoveryAndMapping(t *testing.T) {
	clients, err := discovery.NewDiscoveryClientForConfig(environment.Config)
	must(t, err)
	version, err := clients.ServerVersion()
	must(t, err)
	equal(t, "minor", version.Minor, "36")
	lists, err := clients.ServerPreferredResources()
	must(t, err)
	if len(lists) < 20 {
		t.Fatalf("%d lists", len(lists))
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(clients))
	for kind, resource := range map[schema.GroupKind]string{
		{Group: "apps", Kind: "Deployment"}:           "deployments",
		{Kind: "Pod"}:                                 "pods",
		{Group: group, Kind: "Widget"}:                "widgets",
		{Group: "networking.k8s.io", Kind: "Ingress"}: "ingresses",
	} {
		mapping, err := mapper.RESTMapping(kind)
		must(t, err)
		equal(t, kind.String(), mapping.Resource.Resource, resource)
		if kind.Kind == "Pod" {
			equal(t, "scope", mapping.Scope.Name(), meta.RESTScopeNameNamespace)
		}
	}
	document, err := clients.OpenAPISchema()
	must(t, err)
	if len(document.GetDefinitions().GetAdditionalProperties()) < 500 {
		t.Fatal("the OpenAPI document lacks definitions")
	}
	paths, err := clients.OpenAPIV3().Paths()
	must(t, err)
	if _, found := paths["apis/"+group+"/v1"]; !found {
		t.Fatal("OpenAPI v3 lacks the custom group")
	}
}

func TestCommandsInPodsThatRunNowhereAreRefused(t *testing.T) {
	ctx := limited(t)
	in := namespace(t, ctx)
	clients := typed(t, environment.Config)
	pod := &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: deployment("a").Spec.Template.Spec}
	_, err := clients.CoreV1().Pods(in).Create(ctx, pod, metav1.CreateOptions{})
	must(t, err)
	request := clients.CoreV1().RESTClient().Post().Resource("pods").Namespace(in).Name("a").SubResource("exec").
		VersionedParams(&core.PodExecOptions{Command: []string{"true"}, Stdout: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewSPDYExecutor(environment.Config, "POST", request.URL())
	must(t, err)
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &strings.Builder{}})
	if err == nil || !strings.Contains(err.Error(), "pod a does not have a host assigned") {
		t.Fatal(err)
	}
	executor, err = remotecommand.NewWebSocketExecutor(environment.Config, "GET", request.URL().String())
	must(t, err)
	if executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &strings.Builder{}}) == nil {
		t.Fatal("a command runs")
	}
	logs, err := clients.CoreV1().Pods(in).GetLogs("a", &core.PodLogOptions{}).DoRaw(ctx)
	must(t, err)
	equal(t, "logs", string(logs), "")
}

func TestUsersOfTheEnvironment(t *testing.T) {
	ctx := limited(t)
	in := namespace(t, ctx)
	config := rest.CopyConfig(environment.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	_, err = clients.CoreV1().ConfigMaps(in).List(ctx, metav1.ListOptions{})
	equal(t, "forbidden", apierrors.IsForbidden(err), true)
}
