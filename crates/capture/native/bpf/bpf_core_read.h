/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bpf_core_read.h - for the host: the kernel's structures are the programs' own declarations, and
 * no kernel gives reasons for drops.
 */
#ifndef TCPILOT_NATIVE_BPF_CORE_READ_H
#define TCPILOT_NATIVE_BPF_CORE_READ_H

#define BPF_CORE_READ(of, field) ((of)->field)
#define bpf_core_enum_value_exists(type, name) 0
#define bpf_core_enum_value(type, name) 0

#endif
