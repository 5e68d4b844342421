package clients

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/openapi3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// TestLintersReadEveryDocument does what tools do that judge manifests by a server's documents: it reads them all, follows every
// reference, finds the schema of every kind that is served, and judges by them.
func TestLintersReadEveryDocument(t *testing.T) {
	client := typed(t, environment.Config).Discovery()
	root := openapi3.NewRoot(client.OpenAPIV3())
	versions, err := root.GroupVersions()
	must(t, err)
	schemas := map[schema.GroupVersionKind]*spec.Schema{}
	for _, version := range versions {
		document, err := root.GVSpec(version)
		must(t, err)
		for name, defined := range document.Components.Schemas {
			var kinds []schema.GroupVersionKind
			must(t, defined.Extensions.GetObject("x-kubernetes-group-version-kind", &kinds))
			whole, err := resolver.PopulateRefs(func(reference string) (*spec.Schema, bool) {
				found, known := document.Components.Schemas[reference[strings.LastIndex(reference, "/")+1:]]
				return found, known
			}, name)
			if err != nil {
				t.Fatalf("%s of %s: %v", name, version, err)
			}
			for _, kind := range kinds {
				schemas[kind] = whole
			}
		}
		// Server-Side Apply of clients reads the same schemas in a form of its own.
		_, err = managedfields.NewTypeConverter(document.Components.Schemas, false)
		must(t, err)
	}
	_, resources, err := client.ServerGroupsAndResources()
	must(t, err)
	for _, list := range resources {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		must(t, err)
		for _, resource := range list.APIResources {
			// The options of a connection are its query.
			if strings.HasSuffix(resource.Kind, "Options") {
				continue
			}
			kind := schema.GroupVersionKind{Group: resource.Group, Version: resource.Version, Kind: resource.Kind}
			if kind.Version == "" {
				kind.Group, kind.Version = version.Group, version.Version
			}
			if schemas[kind] == nil {
				t.Errorf("%s of %s: no schema of %s", resource.Name, version, kind)
			}
		}
	}
	judge := func(manifest string) []error {
		t.Helper()
		var object map[string]any
		must(t, yaml.Unmarshal([]byte(manifest), &object))
		version, err := schema.ParseGroupVersion(object["apiVersion"].(string))
		must(t, err)
		found := schemas[version.WithKind(object["kind"].(string))]
		if found == nil {
			t.Fatalf("no schema: %s", manifest)
		}
		return validate.NewSchemaValidator(found, nil, "", strfmt.Default).Validate(object).Errors
	}
	for _, right := range []string{
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {matchLabels: {a: b}}, template: {spec: {containers: [{name: web}]}}}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80, targetPort: web}]}}`,
		`{apiVersion: v1, kind: ResourceQuota, metadata: {name: few}, spec: {hard: {pods: 3, cpu: 100m}}}`,
	} {
		if faults := judge(right); len(faults) != 0 {
			t.Errorf("%s: %v", right, faults)
		}
	}
	for wrong, fault := range map[string]string{
		`{apiVersion: apps/v1, kind: Deployment, spec: {template: {}}}`:       "spec.selector in body is required",
		`{apiVersion: v1, kind: Service, spec: {ports: [{port: http}]}}`:      "spec.ports[0].port in body must be of type integer: \"string\"",
		`{apiVersion: v1, kind: ConfigMap, data: {a: 1}}`:                     "data.a in body must be of type string: \"integer\"",
		`{apiVersion: clients.example.com/v1, kind: Widget, spec: {text: 3}}`: "spec.text in body must be of type string: \"integer\"",
	} {
		faults := judge(wrong)
		if len(faults) == 0 || faults[0].Error() != fault {
			t.Errorf("%s: %v", wrong, faults)
		}
	}
}
