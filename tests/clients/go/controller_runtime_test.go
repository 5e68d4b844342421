package clients

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	group     = "clients.example.com"
	finalizer = group + "/finalizer"
	indexed   = ".spec.text"
)

// Widget is the version that is stored.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WidgetSpec   `json:"spec"`
	Status            WidgetStatus `json:"status,omitempty"`
}

// WidgetSpec says what a widget shows.
type WidgetSpec struct {
	Text string `json:"text,omitempty"`
}

// WidgetStatus says what was made for it.
type WidgetStatus struct {
	Made string `json:"made,omitempty"`
}

// OldWidget is an older version, which calls the text a label.
type OldWidget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              OldWidgetSpec `json:"spec"`
}

// OldWidgetSpec says what an old widget shows.
type OldWidgetSpec struct {
	Label string `json:"label,omitempty"`
}

// WidgetList is a list of widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

func (w *Widget) Hub() {}

func (w *Widget) DeepCopyObject() runtime.Object {
	copied := *w
	w.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	return &copied
}

func (w *OldWidget) DeepCopyObject() runtime.Object {
	copied := *w
	w.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	return &copied
}

func (l *WidgetList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = nil
	for i := range l.Items {
		copied.Items = append(copied.Items, *l.Items[i].DeepCopyObject().(*Widget))
	}
	return &copied
}

func (w *OldWidget) ConvertTo(hub conversion.Hub) error {
	to := hub.(*Widget)
	to.ObjectMeta = w.ObjectMeta
	to.Spec.Text = w.Spec.Label
	return nil
}

func (w *OldWidget) ConvertFrom(hub conversion.Hub) error {
	from := hub.(*Widget)
	w.ObjectMeta = from.ObjectMeta
	w.Spec.Label = from.Spec.Text
	return nil
}

func addToScheme(s *runtime.Scheme) error {
	current := schema.GroupVersion{Group: group, Version: "v1"}
	s.AddKnownTypes(current, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(s, current)
	old := schema.GroupVersion{Group: group, Version: "v1beta1"}
	s.AddKnownTypeWithName(old.WithKind("Widget"), &OldWidget{})
	metav1.AddToGroupVersion(s, old)
	return nil
}

func widgetDefinition() *apiextensions.CustomResourceDefinition {
	version := func(name, field string, stored bool) apiextensions.CustomResourceDefinitionVersion {
		text := func(field string) apiextensions.JSONSchemaProps {
			return apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{field: {Type: "string"}}}
		}
		return apiextensions.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: stored,
			Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{
				Type:       "object",
				Properties: map[string]apiextensions.JSONSchemaProps{"spec": text(field), "status": text("made")},
			}},
			Subresources: &apiextensions.CustomResourceSubresources{Status: &apiextensions.CustomResourceSubresourceStatus{}},
		}
	}
	return &apiextensions.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensions.NamespaceScoped,
			Names:    apiextensions.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensions.CustomResourceDefinitionVersion{version("v1", "text", true), version("v1beta1", "label", false)},
		},
	}
}

func webhooks() envtest.WebhookInstallOptions {
	rules := []admissionregistration.RuleWithOperations{{
		Operations: []admissionregistration.OperationType{admissionregistration.Create, admissionregistration.Update},
		Rule:       admissionregistration.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{"widgets"}},
	}}
	none := new(admissionregistration.SideEffectClassNone)
	*none = admissionregistration.SideEffectClassNone
	calls := func(path string) admissionregistration.WebhookClientConfig {
		service := &admissionregistration.ServiceReference{Name: "webhooks", Namespace: "default", Path: &path}
		return admissionregistration.WebhookClientConfig{Service: service}
	}
	return envtest.WebhookInstallOptions{
		MutatingWebhooks: []*admissionregistration.MutatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "defaults"},
			Webhooks: []admissionregistration.MutatingWebhook{{
				Name: "defaults." + group, Rules: rules, SideEffects: none, AdmissionReviewVersions: []string{"v1"},
				ClientConfig: calls("/mutate-clients-example-com-v1-widget"),
			}},
		}},
		ValidatingWebhooks: []*admissionregistration.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "checks"},
			Webhooks: []admissionregistration.ValidatingWebhook{{
				Name: "checks." + group, Rules: rules, SideEffects: none, AdmissionReviewVersions: []string{"v1"},
				ClientConfig: calls("/validate-clients-example-com-v1-widget"),
			}},
		}},
	}
}

// admits sets defaults and checks widgets.
type admits struct{}

func (admits) Default(_ context.Context, widget *Widget) error {
	if widget.Spec.Text == "" {
		widget.Spec.Text = "default"
	}
	return nil
}

func (admits) ValidateCreate(_ context.Context, widget *Widget) (admission.Warnings, error) {
	if widget.Spec.Text == "bad" {
		return admission.Warnings{"bad is bad"}, fmt.Errorf("the text is bad")
	}
	return nil, nil
}

func (a admits) ValidateUpdate(ctx context.Context, _, widget *Widget) (admission.Warnings, error) {
	return a.ValidateCreate(ctx, widget)
}

func (admits) ValidateDelete(context.Context, *Widget) (admission.Warnings, error) { return nil, nil }

// reconciler makes a ConfigMap for each widget.
type reconciler struct{ client.Client }

func (r reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	widget := &Widget{}
	if err := r.Get(ctx, request.NamespacedName, widget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !widget.DeletionTimestamp.IsZero() {
		controllerutil.RemoveFinalizer(widget, finalizer)
		return ctrl.Result{}, r.Update(ctx, widget)
	}
	if controllerutil.AddFinalizer(widget, finalizer) {
		return ctrl.Result{}, r.Update(ctx, widget)
	}
	owned := &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: widget.Name, Namespace: widget.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, owned, func() error {
		owned.Data = map[string]string{"text": widget.Spec.Text}
		return controllerutil.SetControllerReference(widget, owned, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if widget.Status.Made == widget.Spec.Text {
		return ctrl.Result{}, nil
	}
	widget.Status.Made = widget.Spec.Text
	return ctrl.Result{}, r.Status().Update(ctx, widget)
}

func startManager(t *testing.T, ctx context.Context) client.Client {
	t.Helper()
	serving := environment.WebhookInstallOptions
	manager, err := ctrl.NewManager(environment.Config, ctrl.Options{
		Scheme:  scheme.Scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: serving.LocalServingHost, Port: serving.LocalServingPort, CertDir: serving.LocalServingCertDir,
		}),
	})
	must(t, err)
	must(t, manager.GetFieldIndexer().IndexField(ctx, &Widget{}, indexed, func(object client.Object) []string {
		return []string{object.(*Widget).Spec.Text}
	}))
	must(t, ctrl.NewControllerManagedBy(manager).For(&Widget{}).Owns(&core.ConfigMap{}).Complete(reconciler{manager.GetClient()}))
	must(t, ctrl.NewWebhookManagedBy(manager, &Widget{}).WithDefaulter(admits{}).WithValidator(admits{}).Complete())
	go func() {
		if err := manager.Start(ctx); err != nil {
			t.Error(err)
		}
	}()
	if !manager.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache does not sync")
	}
	must(t, eventually(ctx, func() (bool, error) { return manager.GetWebhookServer().StartedChecker()(nil) == nil, nil }))
	return manager.GetClient()
}

func eventually(ctx context.Context, condition func() (bool, error)) error {
	return wait.PollUntilContextCancel(ctx, 10_000_000, true, func(context.Context) (bool, error) { return condition() })
}

func TestManagerWithOwnedObjectsAndWebhooks(t *testing.T) {
	ctx := limited(t)
	in := namespace(t, ctx)
	through := startManager(t, ctx)
	widget := &Widget{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: in}}
	must(t, through.Create(ctx, widget))
	equal(t, "default", widget.Spec.Text, "default")

	key := client.ObjectKeyFromObject(widget)
	must(t, eventually(ctx, func() (bool, error) {
		err := through.Get(ctx, key, widget)
		return err == nil && widget.Status.Made == "default", client.IgnoreNotFound(err)
	}))
	equal(t, "finalizer", slices.Contains(widget.Finalizers, finalizer), true)
	owned := &core.ConfigMap{}
	// Each kind is followed by itself.
	must(t, eventually(ctx, func() (bool, error) {
		err := through.Get(ctx, key, owned)
		return err == nil, client.IgnoreNotFound(err)
	}))
	equal(t, "owner", metav1.IsControlledBy(owned, widget), true)
	// What is changed by others is put right, as the manager watches what it owns.
	owned.Data["text"] = "changed"
	must(t, through.Update(ctx, owned))
	must(t, eventually(ctx, func() (bool, error) {
		err := through.Get(ctx, key, owned)
		return err == nil && owned.Data["text"] == "default", err
	}))
	list := &WidgetList{}
	must(t, through.List(ctx, list, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(indexed, "default")}))
	equal(t, "indexed", len(list.Items), 1)

	bad := &Widget{ObjectMeta: metav1.ObjectMeta{Name: "bad", Namespace: in}, Spec: WidgetSpec{Text: "bad"}}
	err := through.Create(ctx, bad)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "the text is bad") {
		t.Fatal(err)
	}

	old := &OldWidget{}
	uncached, err := client.New(environment.Config, client.Options{})
	must(t, err)
	must(t, uncached.Get(ctx, key, old))
	equal(t, "converted", old.Spec.Label, "default")
	newer := &OldWidget{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: in}, Spec: OldWidgetSpec{Label: "old"}}
	must(t, uncached.Create(ctx, newer))
	must(t, uncached.Get(ctx, client.ObjectKeyFromObject(newer), widget))
	equal(t, "converted", widget.Spec.Text, "old")

	must(t, uncached.Delete(ctx, newer))
	must(t, eventually(ctx, func() (bool, error) {
		err := uncached.Get(ctx, client.ObjectKeyFromObject(newer), newer)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}))
}
