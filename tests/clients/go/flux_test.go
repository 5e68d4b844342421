package clients

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/utils"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// release is what an engine of GitOps applies: a definition, an object of it, and what stands on a namespace.
const release = `
apiVersion: v1
kind: Namespace
metadata: {name: flux}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ships.flux.example.com}
spec:
  group: flux.example.com
  scope: Namespaced
  names: {plural: ships, kind: Ship}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}
---
apiVersion: flux.example.com/v1
kind: Ship
metadata: {name: ship, namespace: flux}
spec: {size: 3}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: flux}
data: {colour: %s}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: flux}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: registry.example.com/web, resources: {limits: {cpu: 1000m}}}]}
`

func TestFluxAppliesInStagesFindsDriftAndDeletes(t *testing.T) {
	ctx := limited(t)
	http, err := rest.HTTPClientFor(environment.Config)
	must(t, err)
	mapper, err := apiutil.NewDynamicRESTMapper(environment.Config, http)
	must(t, err)
	direct, err := client.New(environment.Config, client.Options{Mapper: mapper, Scheme: scheme.Scheme})
	must(t, err)
	poller := polling.NewStatusPoller(direct, mapper, polling.Options{})
	manager := ssa.NewResourceManager(direct, poller, ssa.Owner{Field: "flux", Group: "flux.example.com"})
	read := func(colour string) []*unstructured.Unstructured {
		t.Helper()
		objects, err := utils.ReadObjects(strings.NewReader(fmt.Sprintf(release, colour)))
		must(t, err)
		return objects
	}
	apply := func(colour string) map[string]ssa.Action {
		t.Helper()
		changes, err := manager.ApplyAllStaged(ctx, read(colour), ssa.DefaultApplyOptions())
		must(t, err)
		return changes.ToMap()
	}
	all := func(changes map[string]ssa.Action, want ssa.Action) {
		t.Helper()
		equal(t, "changes", len(changes), 5)
		for subject, action := range changes {
			equal(t, subject, action, want)
		}
	}
	all(apply("red"), ssa.CreatedAction)
	// What the server defaults and what it writes in another form is no drift.
	all(apply("red"), ssa.UnchangedAction)
	changed := apply("blue")
	equal(t, "the map", changed["ConfigMap/flux/settings"], ssa.ConfiguredAction)
	equal(t, "the deployment", changed["Deployment/flux/web"], ssa.UnchangedAction)

	// Somebody else changes a field by force; a dry run finds it, and another apply takes it back.
	settings := &core.ConfigMap{}
	settings.Name, settings.Namespace = "settings", "flux"
	settings.Data = map[string]string{"colour": "green"}
	must(t, direct.Update(ctx, settings))
	wanted := read("blue")
	for _, object := range wanted {
		if object.GetKind() == "ConfigMap" {
			found, _, _, err := manager.Diff(ctx, object, ssa.DefaultDiffOptions())
			must(t, err)
			equal(t, "drift", found.Action, ssa.ConfiguredAction)
		}
	}
	equal(t, "taken back", apply("blue")["ConfigMap/flux/settings"], ssa.ConfiguredAction)

	must(t, manager.Wait(wanted[:1], ssa.WaitOptions{Interval: 50 * time.Millisecond, Timeout: patience}))
	gone, err := manager.DeleteAll(ctx, wanted, ssa.DefaultDeleteOptions())
	must(t, err)
	all(gone.ToMap(), ssa.DeletedAction)
	for _, object := range wanted {
		// Nothing ends the namespace; the definition ends once its objects are gone.
		if object.GetKind() == "CustomResourceDefinition" {
			waited := ssa.WaitOptions{Interval: 50 * time.Millisecond, Timeout: patience}
			must(t, manager.WaitForTermination([]*unstructured.Unstructured{object}, waited))
		}
	}
}
