package v1

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shopv1 "holdfast.example/clients/api/v1"
	shopv2 "holdfast.example/clients/api/v2"
)

// What the owner of a project adds to what kubebuilder generates, in the environment that the generated suite starts.
var _ = Describe("Widgets of a server", func() {
	of := func(foo string) *shopv1.Widget {
		widget := &shopv1.Widget{ObjectMeta: metav1.ObjectMeta{GenerateName: "widget-", Namespace: "default"}}
		if foo != "" {
			widget.Spec.Foo = &foo
		}
		return widget
	}

	It("have what they leave out from the defaulting webhook", func() {
		widget := of("")
		Expect(k8sClient.Create(ctx, widget)).To(Succeed())
		Expect(widget.Spec.Foo).To(HaveValue(Equal("default")))
		given := of("given")
		Expect(k8sClient.Create(ctx, given)).To(Succeed())
		Expect(given.Spec.Foo).To(HaveValue(Equal("given")))
	})

	It("are refused by the validating webhook when they are made and when they are changed", func() {
		err := k8sClient.Create(ctx, of("bad"))
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(`admission webhook "vwidget-v1.kb.io" denied the request: foo is bad`)))
		widget := of("good")
		Expect(k8sClient.Create(ctx, widget)).To(Succeed())
		*widget.Spec.Foo = "bad"
		Expect(apierrors.IsForbidden(k8sClient.Update(ctx, widget))).To(BeTrue())
		Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(widget), widget)).To(Succeed())
		Expect(widget.Spec.Foo).To(HaveValue(Equal("good")))
	})

	It("are changed with the warning of the validating webhook", func() {
		heard := &warnings{}
		config := rest.CopyConfig(cfg)
		config.WarningHandler = heard
		warned, err := client.New(config, client.Options{Scheme: scheme.Scheme})
		Expect(err).NotTo(HaveOccurred())
		widget := of("one")
		Expect(warned.Create(ctx, widget)).To(Succeed())
		Expect(heard.texts).To(BeEmpty())
		*widget.Spec.Foo = "two"
		Expect(warned.Update(ctx, widget)).To(Succeed())
		Expect(heard.texts).To(ConsistOf("foo changed"))
	})

	It("are converted by the conversion webhook in both directions", func() {
		widget := of("converted")
		Expect(k8sClient.Create(ctx, widget)).To(Succeed())
		newer := &shopv2.Widget{}
		Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(widget), newer)).To(Succeed())
		Expect(newer.Spec.Bar).To(HaveValue(Equal("converted")))
		Expect(newer.UID).To(Equal(widget.UID))
		*newer.Spec.Bar = "changed"
		Expect(k8sClient.Update(ctx, newer)).To(Succeed())
		Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(widget), widget)).To(Succeed())
		Expect(widget.Spec.Foo).To(HaveValue(Equal("changed")))
		list := &shopv2.WidgetList{}
		Expect(k8sClient.List(ctx, list, client.InNamespace("default"))).To(Succeed())
		Expect(list.Items).To(ContainElement(HaveField("Spec.Bar", HaveValue(Equal("changed")))))
	})

	It("of another version than the webhooks' are converted for them", func() {
		newer := &shopv2.Widget{ObjectMeta: metav1.ObjectMeta{GenerateName: "newer-", Namespace: "default"}}
		Expect(k8sClient.Create(ctx, newer)).To(Succeed())
		Expect(newer.Spec.Bar).To(HaveValue(Equal("default")))
		bad := "bad"
		refused := &shopv2.Widget{ObjectMeta: metav1.ObjectMeta{GenerateName: "newer-", Namespace: "default"}}
		refused.Spec.Bar = &bad
		Expect(k8sClient.Create(ctx, refused)).To(MatchError(ContainSubstring("foo is bad")))
	})
})

// warnings keeps what a server warns of.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }
