/* SPDX-License-Identifier: GPL-2.0-or-later */
/* replay.c - the classifier of bpf/core/watch, compiled for the host: records in, verdicts out. */
#include <linux/types.h>
#include "abi/abi.h"
#include "core/watch/p4air.h"
#include "core/watch/shape.h"
#include "core/watch/light_tracking.h"

/* The features after each round: count rows of TP_FEATURES. */
void replay_features(const struct tp_round *rounds, __u32 count, __s32 *features)
{
	struct tp_shape shape = {0};

	for (__u32 i = 0; i < count; i++) {
		tp_shape_round(&shape, &rounds[i]);
		tp_features(&shape, &rounds[i], features + i * TP_FEATURES);
	}
}

__u32 replay_slow_start_rounds(const struct tp_round *rounds, __u32 count)
{
	struct tp_shape shape = {0};

	for (__u32 i = 0; i < count; i++)
		tp_shape_round(&shape, &rounds[i]);
	return shape.slow_start_rounds;
}

/* Light tracking of a flow, as bpf/watch/clock.h does it. */
struct light {
	__u32 us; /* its duration; 0: the flow's rounds are measured */
	__u32 light_us;
	__u32 lost_us; /* when it ended the last loss in it */
	__u32 has_lost;
};

/* A round passes in light tracking. */
static void round_passes(struct light *light, struct tp_shape *shape, const struct tp_round *r)
{
	light->light_us += r->duration_us;
	if (tp_has_loss(r)) {
		light->has_lost = 1;
		light->lost_us = light->light_us;
	}
	if (light->light_us < light->us)
		return;
	tp_shape_resumes(shape, light->light_us, r->rtt_us, light->has_lost,
			 light->light_us - light->lost_us);
	*light = (struct light){0};
}

/* The verdict after each round.  extrapolation: the model for paths beyond the other's range.
 * lightly: settled flows are tracked lightly, and for each round whether it passed so; or NULL. */
void replay_verdicts(const struct tp_round *rounds, __u32 count, const struct tp_model *model,
		     const struct tp_model *extrapolation, __u8 *lightly,
		     struct tp_verdict *verdicts)
{
	struct tp_scratch scratch;
	struct tp_verdict verdict = {.name = TP_NO_CLASS};
	struct tp_shape shape = {0};
	struct light light = {0};

	for (__u32 i = 0; i < count; i++) {
		if (lightly)
			lightly[i] = light.us != 0;
		if (light.us) {
			round_passes(&light, &shape, &rounds[i]);
		} else {
			const struct tp_model *chosen = model;

			if (tp_is_extrapolated(model, extrapolation, &rounds[i]))
				chosen = extrapolation;

			tp_shape_round(&shape, &rounds[i]);
			tp_classify(&verdict, &shape, &rounds[i], chosen, &scratch);
			if (lightly && tp_may_track_lightly(&verdict, &shape, &rounds[i]))
				light.us = tp_light_us(&shape, &rounds[i]);
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
