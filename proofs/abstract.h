/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * abstract.h - products, quotients and remainders as the solver sees them.
 *
 * A circuit for a 64-bit product or quotient of two unknowns keeps a SAT solver busy for hours.
 * scripts/prove replaces each by any value within bounds from the operands' numbers of bits.
 * The bounds hold for every true result, so a proof with them holds for the real arithmetic.  The
 * reverse is not true: `scripts/prove --exact` repeats a failure with the real circuits.
 */
#ifndef TCPILOT_PROOFS_ABSTRACT_H
#define TCPILOT_PROOFS_ABSTRACT_H

unsigned long long nondet_u64(void);

/* 2^(bits of x): the least power of two above it, as an exponent. */
static inline int abstract_bits(unsigned long long x)
{
	int bits = 0;

	if (x >> 32) {
		bits += 32;
		x >>= 32;
	}
	if (x >> 16) {
		bits += 16;
		x >>= 16;
	}
	if (x >> 8) {
		bits += 8;
		x >>= 8;
	}
	if (x >> 4) {
		bits += 4;
		x >>= 4;
	}
	if (x >> 2) {
		bits += 2;
		x >>= 2;
	}
	if (x >> 1) {
		bits += 1;
		x >>= 1;
	}
	return bits + (int)x;
}

/* The last product and quotient, for the laws a b / d <= a if b <= d, and (n / d) d <= n. */
static unsigned long long product, product_a, product_b, quotient, quotient_n, quotient_d;
/* A law that a harness knows of a quotient: average_n / average_d lies between these. */
static unsigned long long average_n, average_d, average_least, average_most;

/* Both operands are above 0 and their bits fit into 64 together. */
static inline unsigned long long abstract_mul(unsigned long long a, unsigned long long b)
{
	unsigned long long p = nondet_u64();
	int bits_a = abstract_bits(a), bits_b = abstract_bits(b);

	if (!a || !b)
		return 0;
	__CPROVER_assume(a != quotient || b != quotient_d || p <= quotient_n);
	if (bits_a + bits_b > 64)
		return p;
	/* a < 2^bits, so the product is at most b times (2^bits - 1) */
	__CPROVER_assume(p >= a << (bits_b - 1) && p >= b << (bits_a - 1));
	__CPROVER_assume(bits_a == 64 || p <= (b << bits_a) - b || bits_b + bits_a == 64);
	__CPROVER_assume(bits_b == 64 || p <= (a << bits_b) - a || bits_b + bits_a == 64);
	__CPROVER_assume(bits_a + bits_b == 64 || p < 1ULL << (bits_a + bits_b));
	product = p;
	product_a = a;
	product_b = b;
	return p;
}

static inline unsigned long long abstract_div(unsigned long long n, unsigned long long d)
{
	unsigned long long q = nondet_u64();
	int bits = abstract_bits(d);

	__CPROVER_assume(d != 0);

	/* 2^(bits-1) <= d < 2^bits */
	__CPROVER_assume(q <= n >> (bits - 1));
	__CPROVER_assume(bits == 64 || q >= n >> bits);
	__CPROVER_assume(n < d ? q == 0 : q > 0);
	if (n && n == product) {
		__CPROVER_assume(product_b > d || q <= product_a);
		__CPROVER_assume(product_a > d || q <= product_b);
	}
	if (n == average_n && d == average_d)
		__CPROVER_assume(q >= average_least && q <= average_most);
	quotient = q;
	quotient_n = n;
	quotient_d = d;
	return q;
}

static inline unsigned long long abstract_mod(unsigned long long n, unsigned long long d)
{
	unsigned long long r = nondet_u64();

	__CPROVER_assume(r < d && r <= n && (n >= d || r == n));
	return r;
}

/* Without its sign. */
static inline unsigned long long abstract_size(long long x)
{
	return x < 0 ? 0ULL - (unsigned long long)x : (unsigned long long)x;
}

static inline long long abstract_signed(unsigned long long size, _Bool negative)
{
	return negative ? -(long long)size : (long long)size;
}

#define ABSTRACT_SIGNED(type) (~(type)0 < (type)1)
#define ABSTRACT_SIZE(x, s) ((s) ? abstract_size((long long)(x)) : (unsigned long long)(x))

#define ABSTRACT_MUL(a, b, where)                                                                  \
	({                                                                                         \
		__typeof__((a) * (b)) mul_a = (a), mul_b = (b);                                    \
		_Bool mul_s = ABSTRACT_SIGNED(__typeof__((a) * (b)));                              \
		unsigned long long mul_x = ABSTRACT_SIZE(mul_a, mul_s);                            \
		unsigned long long mul_y = ABSTRACT_SIZE(mul_b, mul_s);                            \
		__CPROVER_assert(!mul_x || !mul_y || (mul_x == quotient && mul_y == quotient_d) || \
				     abstract_bits(mul_x) + abstract_bits(mul_y) <=                \
					 (int)(8 * sizeof(mul_a)) - mul_s,                         \
				 "overflow: product at " where);                                   \
		unsigned long long mul_p = abstract_mul(mul_x, mul_y);                             \
		mul_s ? (__typeof__((a) * (b)))abstract_signed(mul_p, (mul_a < 0) != (mul_b < 0))  \
		      : (__typeof__((a) * (b)))mul_p;                                              \
	})

#define ABSTRACT_DIV(a, b, where)                                                                  \
	({                                                                                         \
		__typeof__((a) / (b)) div_n = (a), div_d = (b);                                    \
		__CPROVER_assert(div_d != 0, "division: by zero at " where);                       \
		__CPROVER_assert(!ABSTRACT_SIGNED(__typeof__((a) / (b))) ||                        \
				     (div_n >= 0 && div_d > 0),                                    \
				 "division: signed at " where);                                    \
		(__typeof__((a) / (b)))abstract_div(div_n, div_d);                                 \
	})

#define ABSTRACT_MOD(a, b, where)                                                                  \
	({                                                                                         \
		__typeof__((a) % (b)) mod_n = (a), mod_d = (b);                                    \
		__CPROVER_assert(mod_d != 0, "division: by zero at " where);                       \
		(__typeof__((a) % (b)))abstract_mod(mod_n, mod_d);                                 \
	})

#endif
