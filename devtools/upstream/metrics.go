package main

import (
	"go/ast"
	"strings"
)

// Metric is a metric of the API server.
type Metric struct {
	Package string `json:"package"`
	// Type is "Counter", "Gauge", "Histogram", "TimingHistogram", "Summary" or "Desc".
	Type string `json:"type"`
	// Stability is "ALPHA", "BETA", "STABLE" or "INTERNAL".
	Stability string `json:"stability"`
	// Deprecated is the version from which the metric is deprecated; empty if it is not.
	Deprecated string   `json:"deprecated"`
	Labels     []string `json:"labels"`
}

// Packages with metrics of other programs.
var otherPrograms = []string{
	"k8s.io/kubernetes/pkg/kubelet", "k8s.io/kubernetes/pkg/scheduler", "k8s.io/kubernetes/pkg/proxy",
	"k8s.io/kubernetes/pkg/controller", "k8s.io/kubernetes/pkg/volume", "k8s.io/kubernetes/cmd/kube-proxy",
	"k8s.io/kubernetes/cmd/kube-scheduler", "k8s.io/kubernetes/cmd/kubelet", "k8s.io/kubernetes/cmd/kube-controller-manager",
	"k8s.io/kubernetes/cmd/cloud-controller-manager", "k8s.io/kubernetes/cmd/kubeadm", "k8s.io/component-helpers",
	"k8s.io/kubernetes/pkg/credentialprovider",
}

var stabilities = map[string]string{
	"ALPHA": "ALPHA", "BETA": "BETA", "STABLE": "STABLE", "INTERNAL": "INTERNAL",
	"AlphaLevel": "ALPHA", "BetaLevel": "BETA", "StableLevel": "STABLE", "InternalLevel": "INTERNAL",
}

// addMetrics records the literals of options of metrics and the calls of NewDesc.
func (inventory *Inventory) addMetrics(source *Source, file *File) {
	if hasPrefix(file.Package, otherPrograms) {
		return
	}
	labels := labelsOfOptions(source, file)
	ast.Inspect(file.Syntax, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CompositeLit:
			kind, ok := strings.CutSuffix(lastName(n.Type), "Opts")
			switch kind {
			case "Counter", "Gauge", "Histogram", "TimingHistogram", "Summary":
			default:
				ok = false
			}
			if ok && len(n.Elts) > 0 {
				inventory.addOptions(source, file, n, kind, labels[n])
			}
		case *ast.CallExpr:
			if calledName(n) == "NewDesc" && len(n.Args) == 6 {
				name, ok := source.text(file, n.Args[0])
				if !ok {
					inventory.addUnresolved("metric", file)
					return true
				}
				inventory.Metrics[name] = Metric{
					Package: label(file.Package), Type: "Desc", Stability: stabilities[lastName(n.Args[4])],
					Labels: stringList(source, file, n.Args[2]),
				}
			}
		}
		return true
	})
}

func (inventory *Inventory) addOptions(source *Source, file *File, literal *ast.CompositeLit, kind string, labels []string) {
	metric := Metric{Package: label(file.Package), Type: kind, Stability: "ALPHA", Labels: labels}
	if labels == nil {
		metric.Labels = []string{}
	}
	parts := map[string]string{}
	for _, element := range literal.Elts {
		entry, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch key := lastName(entry.Key); key {
		case "Namespace", "Subsystem", "Name":
			text, ok := source.text(file, entry.Value)
			if !ok {
				inventory.addUnresolved("metric", file)
				return
			}
			parts[key] = text
		case "StabilityLevel":
			metric.Stability = stabilities[lastName(entry.Value)]
		case "DeprecatedVersion":
			metric.Deprecated, _ = source.text(file, entry.Value)
		}
	}
	if parts["Name"] == "" {
		return
	}
	var name []string
	for _, key := range []string{"Namespace", "Subsystem", "Name"} {
		if parts[key] != "" {
			name = append(name, parts[key])
		}
	}
	inventory.Metrics[strings.Join(name, "_")] = metric
}

// labelsOfOptions maps the options of a metric to the labels in the call that declares it.
func labelsOfOptions(source *Source, file *File) map[*ast.CompositeLit][]string {
	found := map[*ast.CompositeLit][]string{}
	ast.Inspect(file.Syntax, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) < 2 {
			return true
		}
		address, ok := call.Args[0].(*ast.UnaryExpr)
		if !ok {
			return true
		}
		if literal, ok := address.X.(*ast.CompositeLit); ok {
			found[literal] = stringList(source, file, call.Args[1])
		}
		return true
	})
	return found
}

// stringList returns the strings of a literal []string.
func stringList(source *Source, file *File, expr ast.Expr) []string {
	list := []string{}
	literal, ok := expr.(*ast.CompositeLit)
	if !ok {
		value, found := source.lookUp(file, expr)
		if literal, ok = value.value.(*ast.CompositeLit); !found || !ok {
			return list
		}
		file = value.file
	}
	for _, element := range literal.Elts {
		if text, ok := source.text(file, element); ok {
			list = append(list, text)
		}
	}
	return list
}
