/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * config.h - settings, policies and rules.  The daemon sets them before it loads the programs.
 */
#ifndef TCPILOT_ABI_CONFIG_H
#define TCPILOT_ABI_CONFIG_H

#include "learner.h"
#include "choices.h"
#include "tune.h"

#define TP_MAX_RULES 64
#define TP_MAX_DEFAULTS 4
#define TP_HASH_SECRETS 9 /* see bpf/core/hash.h */
#define TP_CGROUP_DEPTH 8 /* ancestors looked at when a rule names a cgroup */

struct tp_policy_config {
	__u8 arms; /* bit i: arm i may be chosen */
	__u8 leave_alone;
	__u8 prefix_len_ipv4_private; /* of the 32 bits */
	__u8 prefix_len_ipv4_public;
	__u8 prefix_len_ipv6_private;
	__u8 prefix_len_ipv6_public;
	__u8 net;	  /* enum tp_net if configured; TP_NET_UNKNOWN: inferred */
	__u8 ecn_vouched; /* bit i: arm i, which needs ECN, may be chosen on any network */
	__u8 rescue;	  /* heavy loss may switch a connection to rescue_cc */
	__u8 separation;  /* enum tp_separation */
	__u8 tuned;	  /* it has a tuning on; the loader sets this */
	__u8 pad[5];
};

#define TP_OLDER_CGROUPS 3

/* One condition of a policy; the first rule that matches decides. 0 in a
 * field, or a mask of 0, matches everything. */
struct tp_rule {
	__u32 prefix[4];
	__u32 mask[4];
	__u64 cgroup_id;
	__u64 former_cgroup_id; /* before the cgroup was made again: its sockets live on; 0: none */
	__u64 older_cgroup_ids[TP_OLDER_CGROUPS]; /* the cgroups before that, the newest first */
	__u32 netns_inum;
	__u16 local_port_first;
	__u16 local_port_last;
	__u16 remote_port_first;
	__u16 remote_port_last;
	__u8 policy;
	__u8 disabled; /* its cgroup or namespace does not exist now */
	__u8 pad[2];
};

/* Written once before loading.  abi_version 0: the loader forgot, so the programs do nothing. */
struct tp_config {
	__u32 abi_version;
	__u32 loss_shift;	 /* the loss rule's bound is 1 / 2^shift */
	__u32 loss_min_segments; /* no rescue before so many segments were sent */
	__u32 ssthresh_floor_packets;
	__u64 window_ns;
	__u64 ssthresh_window_ns;
	__u64 min_flow_bytes;
	struct tp_learner_config learner;
	__u8 arms;
	__u8 policies;
	__u8 rules;
	__u8 rules_use_cgroups;
	__u8 dry_run;
	__u8 manage_loopback;
	__u8 ecn_arms;	  /* bit i: arm i needs ECN, see enum tp_ecn_use */
	__u8 rescue_thin; /* thin linear timeouts with the rescue */
	__u8 defaults;	  /* entries of replace_defaults */
	__u8 rules_use_netns;
	__u8 tunes;	       /* bit i: some policy has enum tp_tune i */
	__u8 rescue_arm;       /* rescue_cc as an arm; it has to be one */
	__u8 rescue_published; /* the published rule of loss: core/rescue.h */
	__u8 follows_fins;     /* FINs are looked at, too; the loader sets this */
	__u8 model_based;      /* bit i: arm i does not take loss for congestion by itself */
	__u8 pad;
	__u64 sample_bytes; /* an open connection is reported after so many bytes */
	__u64 hold_out_seed;
	__u64 host_netns; /* the daemon's namespace; 0: interfaces do not separate paths */
	__u64 hash_secrets[TP_HASH_SECRETS];
	__u64 node_secrets[2][TP_NODE_SECRETS];
	__u64 assignment_secrets[TP_NODE_SECRETS];
	__u32 buckets; /* a power of two */
	__u32 choice_dist_buckets;
	__u32 conn_start_buckets; /* a power of two */
	__u32 choice_dists;	  /* as configured; the loader makes buckets for them */
	__u32 rescue_retry_s;	  /* wait after a rescue without success; see core/rescue.h */
	__u32 pad2;
	char rescue_cc[TP_CC_NAME_MAX]; /* empty: no rescue */
	char replace_defaults[TP_MAX_DEFAULTS][TP_CC_NAME_MAX];
	char arm[TP_MAX_ARMS][TP_CC_NAME_MAX];
	struct tp_policy_config policy[TP_MAX_POLICIES];
	struct tp_tuning tuning[TP_MAX_POLICIES][TP_NETS];
};

TP_ASSERT_SIZE(tp_policy_config, 16);
TP_ASSERT_SIZE(tp_rule, 64 + 8 * TP_OLDER_CGROUPS);
TP_ASSERT_SIZE(tp_config, 672 + 24 * TP_NODE_SECRETS + 48 * TP_NETS * TP_MAX_POLICIES);

#endif
