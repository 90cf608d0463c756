//! Turns views into the text of the live list and of the report. Pure.

use std::fmt::Write as _;

use tcpilot_show::{
    figure::{Shown as _, Unit},
    output::printable,
    select::Selection,
    table,
};

use super::views::{CaptureView, View};
use crate::link::FlowView;

/// The text if there is no flow to show yet.
const NO_FLOW: &str = "no flow yet: one is shown when data of it was acknowledged through here\n";

/// The further line if so many packets of data have passed without one.
const NO_ACKS: &str = "data pass without acknowledgements: --acks-at DEV names the device where these pass, at an ifb \
                       the one whose incoming packets it gets; UDP other than QUIC, as of a tunnel, is listed with \
                       --udp\n";
const NO_ACKS_AFTER: u64 = 100;

/// The same of a capture.
const NO_FLOW_READ: &str = "no flow: one is shown when the capture has both its data and their acknowledgements; \
                            --one-way does without these\n";

/// A line for each device, sums by group, and the queues of `--fair`.
pub fn head(views: &[View]) -> String {
    let mut out = String::new();
    for view in views {
        match &view.capture {
            Some(capture) => read(&mut out, view, capture),
            None => device(&mut out, view),
        }
    }
    let groups: Vec<_> = views.iter().flat_map(|view| &view.groups).collect();
    if !groups.is_empty() {
        let is_wanted = |heading: &str| is_wanted(views, heading);
        let _ = write!(out, "\n{}", table::with(groups, is_wanted));
    }
    for fair in views.iter().filter_map(|view| view.fair.as_ref()) {
        crate::fair::add_table(&mut out, fair);
    }
    out
}

/// The device has a column only if there are several.
fn is_wanted(views: &[View], heading: &str) -> bool {
    views.len() > 1 || heading != "Device"
}

fn device(out: &mut String, view: &View) {
    let gone = if view.present {
        ""
    } else {
        " · THE DEVICE IS GONE"
    };
    let used = view.link_used.map_or_else(String::new, |share| {
        format!(", {} used", share.shown(Unit::Share))
    });
    let _ = writeln!(
        out,
        "{} · {:.0} s · link {}{used} · queue up to {} · {} packets in, {} out{gone}",
        printable(&view.device),
        view.t_s,
        Some(view.link_rate)
            .filter(|r| *r > 0)
            .shown(Unit::BytesPerSecond),
        view.link_queue_us.shown(Unit::Microseconds),
        view.in_packets,
        view.out_packets,
    );
    if let Some(unseen) = view.unseen_packets.filter(|n| *n > 0) {
        let _ = writeln!(out, "{unseen} packets left unseen: this host is busy");
    }
    let parts = [
        (view.other_packets, "of other protocols"),
        (view.unreadable_packets, "with unreadable headers"),
    ];
    if let Some(text) = listed(&parts) {
        let _ = writeln!(out, "not parsed: {text}");
    }
}

/// The counts that are not 0; `None` if all are.
fn listed(parts: &[(u64, &str)]) -> Option<String> {
    let counts = parts.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = counts
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// The lines for a capture: its size, and the packets not judged.
fn read(out: &mut String, view: &View, capture: &CaptureView) {
    let _ = writeln!(
        out,
        "{} · {:.1} s · {} packets, {} of TCP and UDP",
        printable(&view.device),
        view.t_s,
        capture.packets,
        capture.judged_packets
    );
    let parts = [
        (capture.other_packets, "of other protocols over IP"),
        (capture.not_ip_packets, "not IP"),
        (capture.fragments, "fragments behind the first"),
        (capture.cut_packets, "with their headers cut off"),
        (
            capture.other_link_packets,
            "of a link type that is not known",
        ),
        (capture.timeless_packets, "without a time"),
        (capture.doubled_packets, "seen at another device already"),
    ];
    if let Some(text) = listed(&parts) {
        let _ = writeln!(out, "not judged: {text}");
    }
    if view.unproved_packets > 0 {
        let _ = writeln!(
            out,
            "not counted: {} data packets of flows before their first acknowledgement, or of other UDP",
            view.unproved_packets
        );
    }
    if capture.backward_packets > 0 {
        let _ = writeln!(
            out,
            "out of order by their times: {} packets",
            capture.backward_packets
        );
    }
    match capture.end.as_str() {
        "cut" => out.push_str("the capture ends within a packet; this is what comes before\n"),
        "damaged" => out.push_str("the capture is damaged; this is what comes before that\n"),
        _ => {}
    }
}

/// The usual columns, in the order of giving way on a narrow screen. Group, confidence and rate stay.
const FIRST_TO_GO: [&str; 7] = [
    "Why",
    "Age",
    "Drops",
    "Protocol",
    "Queue",
    "RTT",
    "Algorithm",
];

/// The wanted flows of all devices, the fastest first unless the user asks for another order. `width`: the
/// screen's; on a narrow one columns give way, except those the user asked for.
pub fn flows(views: &[View], selection: &Selection<FlowView>, width: Option<usize>) -> String {
    let mut flows: Vec<FlowView> = views.iter().flat_map(|v| v.flows.iter().cloned()).collect();
    if flows.is_empty() {
        let is_capture = views.iter().any(|view| view.capture.is_some());
        if is_capture {
            return NO_FLOW_READ.to_owned();
        }
        let has_data = views.iter().any(|v| v.unproved_packets > NO_ACKS_AFTER);
        return [NO_FLOW, if has_data { NO_ACKS } else { "" }].concat();
    }
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.rate));
    selection.apply(&mut flows);
    let table = |gone: &[&str]| {
        let is_shown = |heading: &str| is_wanted(views, heading) && !gone.contains(&heading);
        selection.table(&flows, is_shown, &[])
    };
    let fits = |text: &str| {
        let widest = text.lines().map(|line| line.chars().count()).max();
        width.is_none_or(|width| widest.unwrap_or(0) <= width)
    };
    let mut text = table(&[]);
    for (last, _) in FIRST_TO_GO.iter().enumerate() {
        if fits(&text) {
            break;
        }
        text = table(&FIRST_TO_GO[..=last]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpilot_show::select::ListQuery;

    #[test]
    fn a_device_says_what_was_not_parsed() {
        let text = |other_packets, unreadable_packets| {
            let view = View {
                other_packets,
                unreadable_packets,
                ..View::example(vec![])
            };
            head(&[view])
        };
        assert!(
            text(1202, 3)
                .contains("\nnot parsed: 1202 of other protocols, 3 with unreadable headers\n")
        );
        assert!(!text(0, 0).contains("not parsed"));
    }

    #[test]
    fn data_without_acknowledgements_name_an_option() {
        let selection = Selection::new(&ListQuery::default()).unwrap();
        let text = |unproved_packets| {
            let view = View {
                unproved_packets,
                ..View::example(vec![])
            };
            flows(&[view], &selection, None)
        };
        assert_eq!(text(7), NO_FLOW);
        assert!(text(500).contains("--acks-at DEV") && text(500).contains("--udp"));
    }

    #[test]
    fn a_capture_says_what_was_not_judged() {
        let capture = CaptureView {
            packets: 2000,
            judged_packets: 1800,
            other_packets: 150,
            cut_packets: 50,
            backward_packets: 2,
            end: "cut".to_owned(),
            ..CaptureView::default()
        };
        let view = View {
            device: "far.pcap".to_owned(),
            capture: Some(capture),
            unproved_packets: 7,
            ..View::example(vec![])
        };
        let expected = "\
far.pcap · 12.5 s · 2000 packets, 1800 of TCP and UDP
not judged: 150 of other protocols over IP, 50 with their headers cut off
not counted: 7 data packets of flows before their first acknowledgement, or of other UDP
out of order by their times: 2 packets
the capture ends within a packet; this is what comes before
";
        assert_eq!(head(std::slice::from_ref(&view)), expected);
        let selection = Selection::new(&ListQuery::default()).unwrap();
        assert_eq!(flows(&[view], &selection, None), NO_FLOW_READ);
    }

    #[test]
    fn name_of_device_is_escaped_in_head() {
        let mut view = View::example(vec![]);
        for capture in [None, Some(CaptureView::default())] {
            view.device = "e\u{1b}[2J\n".to_owned();
            view.capture = capture;
            let head = head(std::slice::from_ref(&view));
            assert!(head.starts_with("e\\u{1b}[2J  · 1"), "{head:?}");
        }
    }

    #[test]
    fn a_narrow_list_keeps_rate_and_confidence() {
        let selection = Selection::new(&ListQuery::default()).unwrap();
        let views = [View::example(vec![FlowView {
            why: "its application is the limit",
            algorithm: Some("westwood".to_owned()),
            confidence: Some(0.5),
            rate: 1_000_000,
            ..FlowView::example(40_262)
        }])];
        let heading = |width| {
            let text = flows(&views, &selection, width);
            assert!(text.lines().all(|l| width.is_none_or(|w| l.len() <= w)));
            text.lines().next().unwrap().to_owned()
        };
        assert!(heading(None).contains("Why"));
        for word in ["Group", "Algorithm", "Confidence", "Rate"] {
            assert!(heading(Some(100)).contains(word), "{word}");
        }
        assert!(heading(Some(80)).contains("Confidence  "));
        assert!(heading(Some(80)).contains("Rate"));
    }
}
