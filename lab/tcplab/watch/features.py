"""Names of the features, in the order of `tp_features` (bpf/lib/shape.h)."""

FEATURES = (
    "response",
    "resent_share",
    "growth_1",
    "growth_2_3",
    "growth_4_7",
    "growth_8_15",
    "growth_16_31",
    "growth_32",
    "growth_short_queue",
    "growth_long_queue",
    "flat",
    "backoffs",
    "own_queue",
    "queue_share",
    "bursts",
    "ripple",
    "dips",
    "start_gain",
    "start_exit_queue",
    "start_lossy",
    "start_rounds",
    "epoch_ms",
    "lossy_rounds",
    "window_span",
    "queue_least",
    "queue_most",
    "window",
    "min_rtt_ms",
    "epoch_rtts",
    "window_of_max",
    "packets_per_ack",
    "ect_syn",
)

GROUPS = ("unknown", "ant", "mouse", "loss", "delay", "loss-delay", "model", "udp")
"""By the numbers of `enum tp_group`."""

GROUP_OF = {
    "reno": "loss",
    "bic": "loss",
    "cubic": "loss",
    "highspeed": "loss",
    "htcp": "loss",
    "hybla": "loss",
    "westwood": "loss",
    "dctcp": "loss",
    "vegas": "delay",
    "lola": "delay",
    "veno": "loss-delay",
    "illinois": "loss-delay",
    "yeah": "loss-delay",
    "bbr": "model",
}
"""As the paper groups them; DCTCP by what it does where no queue marks."""
