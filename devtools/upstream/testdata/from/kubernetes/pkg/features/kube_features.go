package features

import (
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"
)

const (
	Kept  featuregate.Feature = "Kept"
	Grown featuregate.Feature = "GrownGate"
	Gone  featuregate.Feature = "Gone"
	Added featuregate.Feature = "Added"
)

var defaultVersionedKubernetesFeatureGates = map[featuregate.Feature]featuregate.VersionedSpecs{
	Kept: {
		{Version: version.MustParse("1.30"), Default: true, PreRelease: featuregate.GA, LockToDefault: true},
	},
	Grown: {
		{Version: version.MustParse("1.36"), Default: false, PreRelease: featuregate.Alpha},
	},
	Gone: {
		{Version: version.MustParse("1.20"), Default: true, PreRelease: featuregate.GA},
	},
}
