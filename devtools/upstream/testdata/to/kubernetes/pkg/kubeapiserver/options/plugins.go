package options

import (
	"k8s.io/apimachinery/pkg/util/sets"

	"k8s.io/kubernetes/plugin/pkg/admission/first"
	renamed "k8s.io/kubernetes/plugin/pkg/admission/second"
	"k8s.io/kubernetes/plugin/pkg/admission/third"
)

// AllOrderedPlugins lists the plugins in order.
var AllOrderedPlugins = []string{
	renamed.PluginName,
	third.PluginName,
	first.PluginName,
}

// DefaultOffAdmissionPlugins returns the plugins that are off by default.
func DefaultOffAdmissionPlugins() sets.Set[string] {
	defaultOnPlugins := sets.New(
		first.PluginName,
		renamed.PluginName,
	)
	return sets.New(AllOrderedPlugins...).Difference(defaultOnPlugins)
}
