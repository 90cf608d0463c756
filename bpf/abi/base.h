/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base.h - the version of the ABI, its common bounds, and the assertion of sizes.
 */
#ifndef TCPILOT_ABI_BASE_H
#define TCPILOT_ABI_BASE_H

#include <linux/types.h>

/* Raise it when something that outlives the programs (a path, a connection's storage, a
 * count) keeps its layout and changes its meaning: its readers may be of another version.
 * The daemon notices a change of layout without it. */
#define TP_ABI_VERSION 4

#define TP_CC_NAME_MAX 16 /* the kernel's TCP_CA_NAME_MAX, with the final NUL */
#define TP_MAX_ARMS 8
#define TP_MAX_POLICIES 16
#define TP_NO_ARM 0xff

#define TP_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)

#endif
