//! Average and deviation of a number over time.

use crate::time::Moment;

/// Integrator of a number over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Integrator {
    last: Moment,
    value: f64,
    elapsed: f64,
    sum: f64,
    squares: f64,
    max: f64,
}

/// Result of a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Integral {
    /// Length of the period in seconds.
    pub(crate) seconds: f64,
    /// Average over time.
    pub(crate) average: f64,
    /// Standard deviation over time.
    pub(crate) deviation: f64,
    /// Largest value.
    pub(crate) max: f64,
}

impl Integrator {
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            last: now,
            ..Self::default()
        }
    }

    /// Sets the number to `value` from `now` on.
    pub(crate) fn set(&mut self, value: f64, now: Moment) {
        self.advance(now);
        self.value = value;
        self.max = self.max.max(value);
    }

    fn advance(&mut self, now: Moment) {
        let seconds = now.since(self.last) as f64 / 1e9;
        self.last = now;
        self.elapsed += seconds;
        self.sum += self.value * seconds;
        self.squares += self.value * self.value * seconds;
    }

    /// Returns the result of the period that ends now, and begins another.
    pub(crate) fn reset(&mut self, now: Moment) -> Integral {
        self.advance(now);
        let integral = self.integral();
        (self.elapsed, self.sum, self.squares, self.max) = (0.0, 0.0, 0.0, self.value);
        integral
    }

    fn integral(&self) -> Integral {
        let (seconds, max) = (self.elapsed, self.max);
        if seconds <= 0.0 {
            return Integral {
                seconds,
                average: 0.0,
                deviation: 0.0,
                max,
            };
        }
        let average = self.sum / seconds;
        let variance = self.squares / seconds - average * average;
        Integral {
            seconds,
            average,
            deviation: variance.max(0.0).sqrt(),
            max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_has_an_average_a_deviation_and_a_highest_value() {
        let second = |seconds: u64| Moment(seconds * 1_000_000_000);
        let mut integrator = Integrator::new(second(1));
        integrator.set(3.0, second(1));
        integrator.set(7.0, second(2));
        integrator.set(1.0, second(2));
        let integral = integrator.reset(second(3));
        assert_eq!(
            integral,
            Integral {
                seconds: 2.0,
                average: 2.0,
                deviation: 1.0,
                max: 7.0
            }
        );
        // The next period begins with the current value.
        let integral = integrator.reset(second(3));
        assert_eq!((integral.seconds, integral.max), (0.0, 1.0));
    }
}
