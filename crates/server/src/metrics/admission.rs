//! Durations of admission, read when metrics are scraped.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_admission::timings::{self, BUCKETS, Labels, QUANTILES, Timings, operation_name};
use holdfast_schema::durations::DurationCounts;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Histogram, LabelPair, Metric, MetricFamily, MetricType, Quantile, Summary};

const CONTROLLER: [&str; 2] = [
    "apiserver_admission_controller_admission_duration_seconds",
    "Durations of admission plugins in seconds, by name, operation, type and rejection",
];
const STEP: [&str; 2] = [
    "apiserver_admission_step_admission_duration_seconds",
    "Durations of the steps of admission in seconds, by operation, type and rejection",
];
const SUMMARY: [&str; 2] = [
    "apiserver_admission_step_admission_duration_seconds_summary",
    "Durations of the steps of admission in the last five hours in seconds, by operation, type and rejection",
];

const STEP_LABELS: [&str; 3] = ["operation", "rejected", "type"];

/// The durations of admission.
pub(super) struct Admission {
    timings: Option<Arc<Timings>>,
    descs: [Desc; 3],
}

impl Admission {
    /// Creates the metrics of `timings`; without timings they have no values.
    pub(super) fn new(timings: Option<Arc<Timings>>) -> prometheus::Result<Self> {
        let desc = |[name, help]: [&str; 2], labels: &[&str]| {
            let labels = labels.iter().map(|label| (*label).to_owned()).collect();
            Desc::new(name.to_owned(), help.to_owned(), labels, HashMap::new())
        };
        Ok(Self {
            timings,
            descs: [
                desc(CONTROLLER, &["name", "operation", "rejected", "type"])?,
                desc(STEP, &STEP_LABELS)?,
                desc(SUMMARY, &STEP_LABELS)?,
            ],
        })
    }
}

impl Collector for Admission {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (mut controllers, mut steps, mut summaries) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(timings) = &self.timings {
            timings.read_plugins(|name, labels, counts| {
                controllers.push(histogram(pairs(Some(name), labels), &BUCKETS, counts));
            });
            timings.read_steps(|labels, counts, quantiles| {
                steps.push(histogram(pairs(None, labels), &BUCKETS, counts));
                summaries.push(summary(pairs(None, labels), counts, quantiles));
            });
        }
        vec![
            family(CONTROLLER, MetricType::HISTOGRAM, controllers),
            family(STEP, MetricType::HISTOGRAM, steps),
            family(SUMMARY, MetricType::SUMMARY, summaries),
        ]
    }
}

pub(super) fn family([name, help]: [&str; 2], kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

fn pairs(name: Option<&str>, labels: Labels) -> Vec<LabelPair> {
    let rejected = if labels.rejected { "true" } else { "false" };
    let named = name.map(|name| ("name", name));
    let labels = [
        ("operation", operation_name(labels.operation)),
        ("rejected", rejected),
        ("type", labels.step.name()),
    ];
    let pairs = named.into_iter().chain(labels).map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name(name.to_owned());
        pair.set_value(value.to_owned());
        pair
    });
    pairs.collect()
}

/// Returns a histogram of durations, whose buckets have these bounds.
pub(super) fn histogram<const N: usize>(
    labels: Vec<LabelPair>,
    buckets: &[f64; N],
    counts: DurationCounts<N>,
) -> Metric {
    let mut so_far = 0;
    let buckets = buckets.iter().zip(counts.counts).map(|(longest, count)| {
        so_far += count;
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(*longest);
        bucket.set_cumulative_count(so_far);
        bucket
    });
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets.collect());
    histogram.set_sample_count(counts.count());
    histogram.set_sample_sum(counts.sum.as_secs_f64());
    let mut metric = Metric::from_label(labels);
    metric.set_histogram(histogram);
    metric
}

fn summary(
    labels: Vec<LabelPair>,
    counts: timings::DurationCounts,
    quantiles: Option<[Duration; QUANTILES.len()]>,
) -> Metric {
    let seconds = quantiles.map_or([f64::NAN; QUANTILES.len()], |all| all.map(|of| of.as_secs_f64()));
    let quantiles = QUANTILES.into_iter().zip(seconds).map(|(quantile, seconds)| {
        let mut sample = Quantile::default();
        sample.set_quantile(quantile);
        sample.set_value(seconds);
        sample
    });
    let mut summary = Summary::default();
    summary.set_quantile(quantiles.collect());
    summary.set_sample_count(counts.count());
    summary.set_sample_sum(counts.sum.as_secs_f64());
    let mut metric = Metric::from_label(labels);
    metric.set_summary(summary);
    metric
}

#[cfg(test)]
mod tests {
    use holdfast_admission::AdmissionChain;
    use holdfast_admission::timings::Step;
    use holdfast_resource::Operation;
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn durations_are_shown_as_histograms_and_quantiles() {
        let chain = AdmissionChain::default();
        let step = chain.timings().step(Step::Validate, Operation::Create);
        assert_eq!(step.end(Ok::<_, ()>(())), Ok(()));
        let policies = holdfast_admission::DynamicPlugin::ValidatingPolicies;
        let timing = chain.timings().dynamic(policies, "CREATE");
        assert_eq!(timing.end(Err::<(), _>(())), Err(()));
        let admission = Admission::new(Some(Arc::clone(chain.timings()))).unwrap();
        let families: Vec<_> = admission.collect();
        let text = TextEncoder::new().encode_to_string(&families).unwrap();
        for line in [
            "apiserver_admission_controller_admission_duration_seconds_bucket{name=\"ValidatingAdmissionPolicy\",operation=\"CREATE\",rejected=\"true\",type=\"validate\",le=\"0.005\"} 1\n",
            "apiserver_admission_step_admission_duration_seconds_count{operation=\"CREATE\",rejected=\"false\",type=\"validate\"} 1\n",
            "apiserver_admission_step_admission_duration_seconds_summary_count{operation=\"CREATE\",rejected=\"false\",type=\"validate\"} 1\n",
            "apiserver_admission_step_admission_duration_seconds_summary{operation=\"CREATE\",rejected=\"false\",type=\"validate\",quantile=\"0.99\"} ",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
