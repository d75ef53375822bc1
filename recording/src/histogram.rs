//! The two histograms of a recording: powers of two from the kernel, `HdrHistogram` for latency.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2Serializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counts by power of two: bucket 0 holds the value 0, bucket `i` holds `2^(i-1) <= v < 2^i`.
///
/// Trailing empty buckets are not stored, so two equal histograms are equal as values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Log2Histogram(Vec<u64>);

impl Log2Histogram {
    /// Takes the counts of the buckets from 0 on.
    pub fn new(mut buckets: Vec<u64>) -> Self {
        while buckets.last() == Some(&0) {
            buckets.pop();
        }
        Self(buckets)
    }

    /// The bucket of a value.
    pub fn bucket_of(value: u64) -> usize {
        (u64::BITS - value.leading_zeros()) as usize
    }

    /// The smallest value of a bucket.
    pub fn bucket_low(bucket: usize) -> u64 {
        match bucket {
            0 => 0,
            1..=64 => 1 << (bucket - 1),
            _ => u64::MAX,
        }
    }

    /// Counts of the buckets from 0 to the last one that is not empty.
    pub fn buckets(&self) -> &[u64] {
        &self.0
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }

    /// The bucket that holds the quantile (0..=1), as its half-open range; `None` when empty.
    pub fn quantile_range(&self, quantile: f64) -> Option<(u64, u64)> {
        let total = self.count();
        if total == 0 {
            return None;
        }
        let wanted = ((quantile.clamp(0.0, 1.0) * total as f64).ceil()).max(1.0);
        let mut seen = 0_u64;
        for (bucket, count) in self.0.iter().enumerate() {
            seen += count;
            if seen as f64 >= wanted {
                return Some((Self::bucket_low(bucket), Self::bucket_low(bucket + 1)));
            }
        }
        None
    }
}

/// Latencies in nanoseconds as an `HdrHistogram` in the V2 encoding, base64: any `HdrHistogram`
/// library reads it, and merging loses nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyHistogram {
    /// Number of values.
    pub count: u64,
    /// Smallest value, ns.
    pub min_ns: u64,
    /// Largest value, ns.
    pub max_ns: u64,
    /// The histogram, `HdrHistogram` V2, base64.
    pub hdr_v2: String,
}

/// A stored histogram that cannot be read or merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistogramError {
    /// Not base64.
    #[error("histogram is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// Not an `HdrHistogram` V2.
    #[error("histogram is not HdrHistogram V2: {0}")]
    Decode(String),
    /// A value does not fit the receiving histogram.
    #[error("histograms cannot be merged: {0}")]
    Merge(#[from] hdrhistogram::AdditionError),
}

/// Three significant digits: 0.1 % of the value, finer than any run-to-run noise.
const SIGNIFICANT_DIGITS: u8 = 3;

impl LatencyHistogram {
    /// An empty histogram of the resolution that all of whyfast uses (three digits, resizing).
    pub fn recorder() -> Histogram<u64> {
        let mut histogram =
            Histogram::new(SIGNIFICANT_DIGITS).expect("three significant digits are valid");
        histogram.auto(true);
        histogram
    }

    /// Stores a histogram of nanoseconds; `None` when nothing was recorded in it.
    pub fn from_hdr(histogram: &Histogram<u64>) -> Option<Self> {
        if histogram.is_empty() {
            return None;
        }
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(histogram, &mut bytes)
            .expect("writing to memory cannot fail");
        Some(Self {
            count: histogram.len(),
            min_ns: histogram.min(),
            max_ns: histogram.max(),
            hdr_v2: STANDARD.encode(bytes),
        })
    }

    /// The histogram, ready for quantiles and for merging.
    pub fn to_hdr(&self) -> Result<Histogram<u64>, HistogramError> {
        let bytes = STANDARD.decode(&self.hdr_v2)?;
        let mut histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut Cursor::new(bytes))
            .map_err(|error| HistogramError::Decode(error.to_string()))?;
        histogram.auto(true);
        Ok(histogram)
    }

    #[expect(
        single_use_lifetimes,
        reason = "an anonymous lifetime in impl Trait is unstable"
    )]
    /// Merges histograms bucket by bucket; `None` when there is none.
    pub fn merge<'a>(
        histograms: impl IntoIterator<Item = &'a Self>,
    ) -> Result<Option<Histogram<u64>>, HistogramError> {
        let mut merged: Option<Histogram<u64>> = None;
        for histogram in histograms {
            let histogram = histogram.to_hdr()?;
            match &mut merged {
                None => merged = Some(histogram),
                Some(sum) => sum.add(histogram)?,
            }
        }
        Ok(merged)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Each value lies in the range of its bucket.
        #[test]
        fn bucket_contains_its_value(value: u64) {
            let bucket = Log2Histogram::bucket_of(value);
            prop_assert!(Log2Histogram::bucket_low(bucket) <= value);
            prop_assert!(bucket == 64 || value < Log2Histogram::bucket_low(bucket + 1));
        }

        /// Merging does not depend on the order.
        #[test]
        fn merge_is_commutative(a: Vec<u32>, b: Vec<u32>) {
            let wide = |v: &[u32]| Log2Histogram::new(v.iter().take(64).map(|&n| n.into()).collect());
            let (a, b) = (wide(&a), wide(&b));
            let (mut ab, mut ba) = (a.clone(), b.clone());
            ab.merge(&b);
            ba.merge(&a);
            prop_assert_eq!(ab, ba);
        }

        /// What is stored is what was recorded.
        #[test]
        fn latency_survives_storage(values in prop::collection::vec(1_u64..100_000_000_000, 1..50)) {
            let mut recorder = LatencyHistogram::recorder();
            for value in &values {
                recorder.record(*value).unwrap();
            }
            let stored = LatencyHistogram::from_hdr(&recorder).unwrap();
            prop_assert_eq!(stored.to_hdr().unwrap(), recorder);
            prop_assert_eq!(stored.count, values.len() as u64);
        }
    }

    /// A quantile names the bucket that holds it.
    #[test]
    fn quantile_names_a_bucket() {
        let histogram = Log2Histogram::new(vec![0, 1, 0, 8, 1]);
        assert_eq!(histogram.quantile_range(0.5), Some((4, 8)));
        assert_eq!(histogram.quantile_range(1.0), Some((8, 16)));
        assert_eq!(histogram.quantile_range(0.0), Some((1, 2)));
        assert_eq!(Log2Histogram::default().quantile_range(0.5), None);
    }
}
