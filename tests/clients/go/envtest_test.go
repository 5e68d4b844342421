package clients

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// part is a definition of the group parts.example.com, as a file of YAML holds it.
const part = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.parts.example.com}
spec:
  group: parts.example.com
  scope: Cluster
  names: {plural: %[1]ss, singular: %[1]s, kind: Part%[1]s, listKind: Part%[1]sList}
  versions:
  - {name: v1, served: true, storage: %[2]t, schema: {openAPIV3Schema: {type: object, properties: {size: {type: integer}}}}}
  - {name: v2, served: %[3]t, storage: %[3]t, schema: {openAPIV3Schema: {type: object, properties: {size: {type: integer, maximum: 9}}}}}
`

// write makes a file of a test and gives its path.
func write(t *testing.T, folder, name, content string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// started starts an environment for one test.
func started(t *testing.T, own *envtest.Environment) *rest.Config {
	t.Helper()
	t.Cleanup(func() { must(t, own.Stop()) })
	config, err := own.Start()
	must(t, err)
	return config
}

// untyped gives a client of any resource.
func untyped(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	through, err := client.New(config, client.Options{})
	must(t, err)
	return through
}

// all gives what is left to read.
func all(t *testing.T, reader io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(reader)
	must(t, err)
	return string(text)
}

func partOf(kind, version, name string, size int64) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"size": size}}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "parts.example.com", Version: version, Kind: "Part" + kind})
	object.SetName(name)
	return object
}

func TestDefinitionsOfManyFilesAreInstalledUpgradedAndRemoved(t *testing.T) {
	ctx := limited(t)
	folder := t.TempDir()
	lay := func(upgraded bool) {
		together := ""
		for number := range 20 {
			definition := fmt.Sprintf(part, fmt.Sprintf("bolt%c", 'a'+number), !upgraded, upgraded)
			if number < 10 {
				write(t, folder, fmt.Sprintf("%d.yaml", number), definition)
			} else {
				together += definition
			}
		}
		write(t, folder, "together.yml", together)
	}
	lay(false)
	write(t, folder, "notes.txt", "no definition")
	write(t, folder, "empty.yaml", "")
	options := envtest.CRDInstallOptions{Paths: []string{folder}, ErrorIfPathMissing: true, MaxTime: patience}
	installed, err := envtest.InstallCRDs(environment.Config, options)
	must(t, err)
	equal(t, "definitions", len(installed), 20)
	through := untyped(t, environment.Config)
	must(t, through.Create(ctx, partOf("boltc", "v1", "a", 12)))
	err = through.Create(ctx, partOf("boltc", "v2", "b", 1))
	if err == nil {
		t.Fatal("a version is served that no file serves")
	}

	lay(true)
	_, err = envtest.InstallCRDs(environment.Config, options)
	must(t, err)
	must(t, through.Create(ctx, partOf("boltc", "v2", "b", 1)))
	err = through.Create(ctx, partOf("boltt", "v2", "c", 12))
	equal(t, "invalid", apierrors.IsInvalid(err), true)
	kept := partOf("boltc", "v2", "a", 0)
	must(t, through.Get(ctx, client.ObjectKeyFromObject(kept), kept))
	equal(t, "kept size", kept.Object["size"].(int64), 12)

	must(t, envtest.UninstallCRDs(environment.Config, options))
	must(t, eventually(ctx, func() (bool, error) {
		left := &unstructured.UnstructuredList{}
		left.SetGroupVersionKind(apiextensions.SchemeGroupVersion.WithKind("CustomResourceDefinitionList"))
		err := through.List(ctx, left)
		return !slices.ContainsFunc(left.Items, func(definition unstructured.Unstructured) bool {
			return strings.HasSuffix(definition.GetName(), ".parts.example.com")
		}), err
	}))
}

func TestUsersThatAnEnvironmentAdds(t *testing.T) {
	ctx := limited(t)
	in := namespace(t, ctx)
	alice, err := environment.AddUser(envtest.User{Name: "alice", Groups: []string{"devs"}}, &rest.Config{QPS: 500, Burst: 500})
	must(t, err)
	text, err := alice.KubeConfig()
	must(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	must(t, err)
	for name, config := range map[string]*rest.Config{"config": alice.Config(), "kubeconfig": config} {
		clients := typed(t, config)
		review, err := clients.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authentication.SelfSubjectReview{}, metav1.CreateOptions{})
		must(t, err)
		equal(t, name, review.Status.UserInfo.Username, "alice")
		equal(t, name, strings.Join(review.Status.UserInfo.Groups, " "), "devs system:authenticated")
	}
	kubectl, err := alice.Kubectl()
	must(t, err)
	list := func() (string, string) {
		said, complained, _ := kubectl.Run("get", "configmaps", "--namespace", in, "--output=name")
		return all(t, said), all(t, complained)
	}
	_, complaint := list()
	if !strings.Contains(complaint, `User "alice" cannot list resource "configmaps"`) {
		t.Fatal(complaint)
	}
	admin := typed(t, environment.Config)
	_, err = admin.CoreV1().ConfigMaps(in).Create(ctx, configMap("a", "1"), metav1.CreateOptions{})
	must(t, err)
	_, err = admin.RbacV1().RoleBindings(in).Create(ctx, &rbac.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "devs"},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-view"},
		Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: "Group", Name: "devs"}},
	}, metav1.CreateOptions{})
	must(t, err)
	// Roles are followed, a moment behind.
	must(t, eventually(ctx, func() (bool, error) { said, _ := list(); return said == "configmap/a\n", nil }))
}

func TestAClusterThatIsThereIsUsed(t *testing.T) {
	ctx := limited(t)
	folder := t.TempDir()
	t.Setenv("KUBECONFIG", write(t, folder, "kubeconfig", string(environment.KubeConfig)))
	write(t, folder, "nuts.yaml", fmt.Sprintf(part, "nut", true, false))
	there := true
	other := &envtest.Environment{
		UseExistingCluster: &there,
		CRDInstallOptions:  envtest.CRDInstallOptions{Paths: []string{folder}, CleanUpAfterUse: true},
	}
	config, err := other.Start()
	must(t, err)
	equal(t, "cluster", config.Host, strings.TrimSuffix(environment.Config.Host, "/"))
	through := untyped(t, config)
	nut := partOf("nut", "v1", "a", 1)
	must(t, through.Create(ctx, nut))
	must(t, other.Stop())
	must(t, eventually(ctx, func() (bool, error) {
		// With the definition the objects go, and the cluster stays.
		return through.Get(ctx, client.ObjectKeyFromObject(nut), nut) != nil, nil
	}))
	_, err = typed(t, environment.Config).CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
	must(t, err)
}

func TestFlagsAreSetAndAppended(t *testing.T) {
	ctx := limited(t)
	folder := t.TempDir()
	log := filepath.Join(folder, "audit.log")
	own := &envtest.Environment{}
	own.ControlPlane.Etcd = &envtest.Etcd{}
	own.ControlPlane.Etcd.Configure().Append("quota-backend-bytes", "1000000000")
	own.ControlPlane.GetAPIServer().Configure().
		Set("audit-policy-file", write(t, folder, "policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Request}]\n")).
		Set("audit-log-path", log).
		Set("service-cluster-ip-range", "10.77.0.0/16").
		Set("advertise-address", "127.0.0.1").
		Append("disable-admission-plugins", "ResourceQuota").
		Append("enable-admission-plugins", "PodSecurity", "NamespaceLifecycle").
		Append("feature-gates", "WatchList=false").
		Append("runtime-config", "autoscaling/v1=false").
		Append("vmodule", "httplog=2").
		Disable("allow-privileged")
	clients := typed(t, started(t, own))
	spaces, maps := clients.CoreV1().ResourceQuotas("default"), clients.CoreV1().ConfigMaps("default")
	quota := &core.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}}
	quota.Spec.Hard = core.ResourceList{"count/configmaps": {}}
	_, err := spaces.Create(ctx, quota, metav1.CreateOptions{})
	must(t, err)
	_, err = maps.Create(ctx, configMap("audited", "1"), metav1.CreateOptions{})
	must(t, err)
	must(t, eventually(ctx, func() (bool, error) {
		said, err := os.ReadFile(log)
		return strings.Contains(string(said), `"name":"audited"`), err
	}))
	service := &core.Service{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	service.Spec.Ports = []core.ServicePort{{Port: 80}}
	service, err = clients.CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{})
	must(t, err)
	equal(t, "range of addresses", strings.HasPrefix(service.Spec.ClusterIP, "10.77."), true)
	privileged := deployment("b").Spec.Template.Spec
	privileged.Containers[0].SecurityContext = &core.SecurityContext{Privileged: new(bool)}
	*privileged.Containers[0].SecurityContext.Privileged = true
	_, err = clients.CoreV1().Pods("default").Create(ctx, &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: privileged}, metav1.CreateOptions{})
	equal(t, "privileged pods are refused", apierrors.IsInvalid(err), true)
	_, err = clients.AutoscalingV1().HorizontalPodAutoscalers("default").List(ctx, metav1.ListOptions{})
	equal(t, "not served", apierrors.IsNotFound(err), true)
}

func TestATakenPortEndsTheStart(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(t, err)
	complaints := &bytes.Buffer{}
	own := &envtest.Environment{}
	server := own.ControlPlane.GetAPIServer()
	server.SecureServing.ListenAddr = envtest.ListenAddr{Address: "127.0.0.1", Port: port}
	server.Err = complaints
	if _, err = own.Start(); err == nil {
		t.Fatal("two servers have one port")
	}
	if !strings.Contains(strings.ToLower(complaints.String()), "address already in use") {
		t.Fatal(complaints)
	}
	must(t, own.Stop())
}

// empty says that an environment left nothing.
func empty(t *testing.T, folder string) {
	t.Helper()
	left, err := os.ReadDir(folder)
	must(t, err)
	for _, entry := range left {
		t.Error("left behind: " + entry.Name())
	}
}

// A manager that still runs, and watches and informers that nobody ends, are no reason for an environment to stay.
func TestAnEnvironmentStopsWhileRequestsRunAndStartsAgain(t *testing.T) {
	ctx := limited(t)
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	own := &envtest.Environment{}
	config := started(t, own)
	clients := typed(t, config)
	watch, err := clients.CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{})
	must(t, err)
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	must(t, err)
	_, err = manager.GetCache().GetInformer(ctx, &core.Secret{})
	must(t, err)
	running, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(running) }()
	equal(t, "synced", manager.GetCache().WaitForCacheSync(ctx), true)
	_, err = clients.CoreV1().Namespaces().Create(ctx, named("first-"), metav1.CreateOptions{})
	must(t, err)

	must(t, own.Stop())
	// What was watched ends.
	for range watch.ResultChan() {
	}
	empty(t, folder)
	end()
	must(t, next(t, ctx, ended))

	config, err = own.Start()
	must(t, err)
	spaces, err := typed(t, config).CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	must(t, err)
	for _, space := range spaces.Items {
		if strings.HasPrefix(space.Name, "first-") {
			t.Fatal("an object outlives its environment")
		}
	}
	must(t, own.Stop())
	empty(t, folder)
}

func TestEnvironmentsOfParallelSuitesAreApart(t *testing.T) {
	for number := range 4 {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			t.Parallel()
			ctx := limited(t)
			folder := t.TempDir()
			write(t, folder, "wheels.yaml", fmt.Sprintf(part, "wheel", true, false))
			config := started(t, &envtest.Environment{
				CRDDirectoryPaths: []string{folder}, ErrorIfCRDPathMissing: true, WebhookInstallOptions: webhooks(),
			})
			through := untyped(t, config)
			must(t, through.Create(ctx, partOf("wheel", "v1", "own", int64(number))))
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(schema.GroupVersionKind{Group: "parts.example.com", Version: "v1", Kind: "PartwheelList"})
			must(t, through.List(ctx, list))
			equal(t, "wheels", len(list.Items), 1)
			equal(t, "wheel", list.Items[0].Object["size"].(int64), int64(number))
		})
	}
}
