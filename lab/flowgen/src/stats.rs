//! Mean and median of samples, `None` if there are none.

/// Arithmetic mean.
#[must_use]
pub fn mean(samples: &[f64]) -> Option<f64> {
    if samples.is_empty() {
        return None;
    }
    Some(samples.iter().sum::<f64>() / samples.len() as f64)
}

/// Middle sample, or the mean of the two in the middle.
#[must_use]
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_middle() {
        assert_eq!(mean(&[]), None);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn mean_weighs_every_sample() {
        assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
    }

    #[test]
    fn median_ignores_order_and_outliers() {
        assert_eq!(median(&[5.0]), Some(5.0));
        assert_eq!(median(&[1e9, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 1e9, 2.0]), Some(3.0));
    }
}
