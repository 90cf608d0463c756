/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bpf_tracing.h - for the host: a program is a function. */
#ifndef TCPILOT_NATIVE_BPF_TRACING_H
#define TCPILOT_NATIVE_BPF_TRACING_H

#define BPF_PROG(name, ...) name(__VA_ARGS__)

#endif
