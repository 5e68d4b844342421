package controlplane

import "k8s.io/component-base/metrics"

const namespace = "apiserver"

var labels = []string{"verb", "code"}

var (
	requests = metrics.NewCounterVec(
		&metrics.CounterOpts{
			Namespace:      namespace,
			Name:           "requests_total",
			Help:           "Number of requests.",
			StabilityLevel: metrics.STABLE,
		},
		labels,
	)
	size = metrics.NewDesc(metrics.BuildFQName(namespace, "", "size_bytes"), "Size.", []string{"kind"}, nil, metrics.BETA, "")
)
