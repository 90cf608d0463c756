//! Cholesky's factorisation for the small symmetric matrices of the learner.
//!
//! An advantage matrix is at most 7 by 7 and the regression's about 20 by 20, so the plain algorithm
//! (Golub and Van Loan, *Matrix Computations*, 4.2) is enough. Matrices are row-major slices
//! with a stride: a 3 by 3 matrix can live in an array for 7 by 7. The functions are always inlined:
//! if a caller's sizes are constants, the compiler unrolls the loops: they run four times as fast.

/// The matrix is not positive definite: it lost its digits, or was never valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the matrix is not positive definite")]
pub struct NotPositive;

/// Replaces the lower triangle of the leading `n` by `n` block of `a` by `L`, with `A = L Lᵀ`.
///
/// # Errors
/// [`NotPositive`] if a pivot is zero, negative or not a number; `a` is then partly overwritten.
#[inline(always)]
pub fn cholesky(a: &mut [f64], n: usize, stride: usize) -> Result<(), NotPositive> {
    let Some(a) = a.get_mut(..(n.max(1) - 1) * stride + n) else {
        return Err(NotPositive);
    };
    for j in 0..n {
        for i in j..n {
            let mut sum = a[i * stride + j];
            for k in 0..j {
                sum -= a[i * stride + k] * a[j * stride + k];
            }
            if i > j {
                a[i * stride + j] = sum / a[j * stride + j];
            } else if sum > 0.0 && sum.is_finite() {
                a[j * stride + j] = sum.sqrt();
            } else {
                return Err(NotPositive);
            }
        }
    }
    Ok(())
}

/// Solves `L x = b` in place.
#[inline(always)]
pub fn forward(l: &[f64], n: usize, stride: usize, b: &mut [f64]) {
    let (l, b) = (&l[..(n.max(1) - 1) * stride + n], &mut b[..n]);
    for i in 0..n {
        for k in 0..i {
            b[i] -= l[i * stride + k] * b[k];
        }
        b[i] /= l[i * stride + i];
    }
}

/// Solves `Lᵀ x = b` in place.
#[inline(always)]
pub fn backward(l: &[f64], n: usize, stride: usize, b: &mut [f64]) {
    let (l, b) = (&l[..(n.max(1) - 1) * stride + n], &mut b[..n]);
    for i in (0..n).rev() {
        for k in i + 1..n {
            b[i] -= l[k * stride + i] * b[k];
        }
        b[i] /= l[i * stride + i];
    }
}

/// Solves `A x = b` in place, with `A = L Lᵀ` factored by [`cholesky`].
#[inline(always)]
pub fn solve(l: &[f64], n: usize, stride: usize, b: &mut [f64]) {
    forward(l, n, stride, b);
    backward(l, n, stride, b);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn solution_satisfies_the_equation(
            n in 1usize..8,
            root in prop::collection::vec(-2.0f64..2.0, 49),
            b in prop::collection::vec(-5.0f64..5.0, 7),
        ) {
            // A = R Rᵀ + I is positive definite for every R.
            let mut a = [0.0; 49];
            for i in 0..n {
                for j in 0..n {
                    let dot: f64 = (0..n).map(|k| root[i * 7 + k] * root[j * 7 + k]).sum();
                    a[i * 7 + j] = dot + f64::from(u8::from(i == j));
                }
            }
            let mut l = a;
            cholesky(&mut l, n, 7).unwrap();
            let mut x = b.clone();
            solve(&l, n, 7, &mut x);
            for i in 0..n {
                let back: f64 = (0..n).map(|j| a[i * 7 + j] * x[j]).sum();
                prop_assert!((back - b[i]).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn a_matrix_with_a_negative_direction_is_refused() {
        let mut a = [1.0, 2.0, 2.0, 1.0];
        assert_eq!(cholesky(&mut a, 2, 2), Err(NotPositive));
        assert_eq!(cholesky(&mut [f64::NAN], 1, 1), Err(NotPositive));
    }
}
