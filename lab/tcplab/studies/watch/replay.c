/* SPDX-License-Identifier: GPL-2.0-or-later */
/* replay.c - the classifier of bpf/core/watch, compiled for the host: records in, verdicts out. */
#include <linux/types.h>
#include "abi/abi.h"
#include "core/watch/p4air.h"
#include "core/watch/shape.h"
#include "core/watch/nap.h"

/* The features after each round: count rows of TP_FEATURES. */
void replay_features(const struct tp_round *rounds, __u32 count, __s32 *features)
{
	struct tp_shape shape = {0};

	for (__u32 i = 0; i < count; i++) {
		tp_shape_round(&shape, &rounds[i]);
		tp_features(&shape, &rounds[i], features + i * TP_FEATURES);
	}
}

/* A flow that naps, as bpf/watch/clock.h lets it. */
struct nap {
	__u32 us; /* that are left of it; 0: the flow is awake */
	__u32 napped_us;
	__u32 lost_us; /* when it ended the last loss in it */
	__u32 has_lost;
};

/* A round passes in a nap. */
static void nap_on(struct nap *nap, struct tp_shape *shape, const struct tp_round *r)
{
	nap->napped_us += r->duration_us;
	if (tp_has_loss(r)) {
		nap->has_lost = 1;
		nap->lost_us = nap->napped_us;
	}
	if (nap->napped_us < nap->us)
		return;
	tp_shape_wakes(shape, nap->napped_us, r->rtt_us, nap->has_lost,
		       nap->napped_us - nap->lost_us);
	*nap = (struct nap){0};
}

/* The verdict after each round.  wide: the model for paths beyond the other's.  naps: settled flows
 * nap. */
void replay_verdicts(const struct tp_round *rounds, __u32 count, const struct tp_model *model,
		     const struct tp_model *wide, __u32 naps, struct tp_verdict *verdicts)
{
	struct tp_scratch scratch;
	struct tp_verdict verdict = {.name = TP_NO_CLASS};
	struct tp_shape shape = {0};
	struct nap nap = {0};

	for (__u32 i = 0; i < count; i++) {
		if (nap.us) {
			nap_on(&nap, &shape, &rounds[i]);
		} else {
			int is_wide = tp_is_wide(model, wide, &rounds[i]);

			tp_shape_round(&shape, &rounds[i]);
			tp_classify(&verdict, &shape, &rounds[i], is_wide ? wide : model, &scratch);
			if (naps && tp_may_nap(&verdict, &shape, &rounds[i]))
				nap.us = tp_nap_us(&shape, &rounds[i]);
		}
		verdicts[i] = verdict;
	}
}

/* What the trees say of rows of features: a share of 255 for each class. */
void replay_votes(const __s32 *features, __u32 count, const struct tp_model *model, __u32 *votes)
{
	struct tp_scratch scratch;

	for (__u32 i = 0; i < count; i++) {
		__builtin_memcpy(scratch.feature, features + i * TP_FEATURES,
				 sizeof(scratch.feature));
		tp_forest(model, &scratch);
		__builtin_memcpy(votes + i * TP_MODEL_CLASSES, scratch.vote, sizeof(scratch.vote));
	}
}

/* P4air's group after each interval, the flow's share of the link not known. */
void replay_p4air(const struct tp_interval *intervals, __u32 count, __u8 *groups)
{
	struct tp_p4air flow = {0};

	for (__u32 i = 0; i < count; i++) {
		const struct tp_interval *in = &intervals[i];

		tp_p4air_interval(&flow, in->packets, in->dropped_packets, in->max_queue_us, 0);
		groups[i] = flow.group;
	}
}

__u32 replay_size(__u32 what)
{
	const __u32 sizes[] = {sizeof(struct tp_opened), sizeof(struct tp_round),
			       sizeof(struct tp_interval), sizeof(struct tp_verdict),
			       sizeof(struct tp_model)};

	return what < sizeof(sizes) / sizeof(*sizes) ? sizes[what] : 0;
}
