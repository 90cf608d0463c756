//! The learner of the daemons under test: the default one, or for the whole suite the one in
//! `TCPILOT_LEARNER`.

use std::env;

/// Keys of `[learner]` common to all learners. A configuration with any other key there is about one of them.
const COMMON: [&str; 1] = ["window_s"];

/// Makes epsilon-greedy choose from the first connection on, and never try anything: as certain as the default
/// learner is when there is one algorithm.
const CERTAIN: &str = "kind = \"epsilon-greedy\"\nmin_instances = 0\nepsilon = 0\n";

/// A daemon's configuration, with the learner of `TCPILOT_LEARNER` if it is about no learner.
///
/// # Panics
/// When there is no such learner.
#[must_use]
pub fn configured(config: &str) -> String {
    match env::var("TCPILOT_LEARNER").as_deref() {
        Err(_) | Ok("" | "thompson") => config.to_owned(),
        Ok("epsilon-greedy") if is_about_none(config) => with_keys(config, CERTAIN),
        Ok("epsilon-greedy") => config.to_owned(),
        Ok(other) => panic!("TCPILOT_LEARNER={other}: thompson or epsilon-greedy"),
    }
}

/// The lines of `[learner]`: from its heading on, and until the next heading.
fn section(config: &str) -> Option<(usize, usize)> {
    let lines: Vec<&str> = config.lines().map(str::trim).collect();
    let begin = lines.iter().position(|line| *line == "[learner]")? + 1;
    let is_heading = |line: &&str| line.starts_with('[');
    let length = lines[begin..].iter().position(is_heading);
    Some((begin, begin + length.unwrap_or(lines.len() - begin)))
}

fn is_about_none(config: &str) -> bool {
    let Some((begin, end)) = section(config) else {
        return true;
    };
    let keys = config.lines().take(end).skip(begin);
    let mut keys = keys.filter_map(|line| Some(line.split_once('=')?.0.trim()));
    keys.all(|key| COMMON.contains(&key))
}

/// Adds keys at the end of `[learner]`, so that few lines get another number.
fn with_keys(config: &str, keys: &str) -> String {
    let Some((_, end)) = section(config) else {
        return format!("{}\n[learner]\n{keys}", config.trim_end());
    };
    let line = |line: &str| format!("{line}\n");
    let before: String = config.lines().take(end).map(line).collect();
    let after: String = config.lines().skip(end).map(line).collect();
    before + keys + &after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_to_the_end_of_their_section() {
        for (before, after) in [
            ("a = 1\n", "a = 1\n[learner]\nk = 2\n"),
            ("a = 1\n[[b]]", "a = 1\n[[b]]\n[learner]\nk = 2\n"),
            (
                "  [learner]\n  window_s = 9\n  [b]\n",
                "  [learner]\n  window_s = 9\nk = 2\n  [b]\n",
            ),
        ] {
            assert_eq!(with_keys(before, "k = 2\n"), after);
        }
    }

    #[test]
    fn another_learners_configuration_is_left_as_it_is() {
        for (config, is_it) in [
            ("algorithms = [\"bbr\"]\n[effect]\nblock_s = 9", true),
            ("[learner]\nwindow_s = 9\n[state]\nkeep = 1", true),
            ("[learner]\nkind = \"thompson\"", false),
            ("[learner]\nwindow_s = 9\nsample_s = 1", false),
            ("[learner]\nepsilon = -1", false),
        ] {
            assert_eq!(is_about_none(config), is_it, "{config}");
        }
    }
}
