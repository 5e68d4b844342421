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
			StabilityLevel: metrics.ALPHA,
		},
		labels,
	)
	old = metrics.NewGauge(&metrics.GaugeOpts{Namespace: namespace, Subsystem: "things", Name: "old"})
)
