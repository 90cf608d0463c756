/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bpf_endian.h - for the host. */
#ifndef TCPILOT_NATIVE_BPF_ENDIAN_H
#define TCPILOT_NATIVE_BPF_ENDIAN_H

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define bpf_ntohs(x) __builtin_bswap16(x)
#define bpf_ntohl(x) __builtin_bswap32(x)
#else
#define bpf_ntohs(x) (x)
#define bpf_ntohl(x) (x)
#endif
#define bpf_htons(x) bpf_ntohs(x)
#define bpf_htonl(x) bpf_ntohl(x)

#endif
