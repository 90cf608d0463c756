/* SPDX-License-Identifier: GPL-2.0-or-later */
/* linux/types.h - the kernel's types alone: the parser of scripts/prove knows no extension of GCC. */
#ifndef TCPILOT_PROOFS_TYPES_H
#define TCPILOT_PROOFS_TYPES_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;

#endif
