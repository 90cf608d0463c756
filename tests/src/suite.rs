//! Runs tests as processes of their own, several at once. `src/bin/suite.rs` is its command line.
//!
//! A process for each test, because a panic, a hang or a kill then ends only this test, and because its
//! leftovers on the host carry the number of a dead process: see [`crate::sweep`].

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Write as _,
    fs, io,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::{folder, process::die_with_parent, signals, sweep};

/// A test that takes longer hangs. In virtual time it is the machine's.
const LIMIT: Duration = Duration::from_secs(900);
const SLOWEST: usize = 10;

/// What to run, and how.
#[derive(Debug, Default)]
pub struct Options {
    binaries: Vec<PathBuf>,
    jobs: usize,
    repeat: usize,
    only: Vec<String>,
    except: Option<PathBuf>,
    times: Option<PathBuf>,
    claims: Option<PathBuf>,
}

impl Options {
    /// From the arguments of a command line.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            jobs: 1,
            repeat: 1,
            ..Self::default()
        };
        while let Some(word) = arguments.next() {
            if !word.starts_with("--") {
                options.binaries.push(word.into());
                continue;
            }
            let value = arguments.next().ok_or(format!("{word} needs a value"))?;
            match word.as_str() {
                "--jobs" => options.jobs = value.parse().map_err(|e| format!("--jobs: {e}"))?,
                "--repeat" => {
                    options.repeat = value.parse().map_err(|e| format!("--repeat: {e}"))?
                }
                "--only" => options.only.push(value),
                "--except" => options.except = Some(value.into()),
                "--times" => options.times = Some(value.into()),
                "--claims" => options.claims = Some(value.into()),
                _ => return Err(format!("there is no option {word}")),
            }
        }
        Ok(options)
    }
}

/// A test: its binary, and its name there.
#[derive(Clone, Debug)]
struct Test {
    binary: PathBuf,
    name: String,
}

/// How one test ended.
#[derive(Debug)]
struct Outcome {
    name: String,
    passed: bool,
    seconds: f64,
    /// What the host's processors worked meanwhile: this test's, if it runs alone.
    busy: f64,
    output: String,
}

/// Runs them all; whether all passed.
///
/// # Errors
/// When they cannot be run, or the list of exceptions names an unknown test.
pub fn run(options: &Options) -> Result<bool, String> {
    signals::take()?;
    sweep();
    let all = list(options)?;
    let excepted = exceptions(options, &all)?;
    let count = all.len();
    let wanted: Vec<Test> = all
        .into_iter()
        .filter(|test| !excepted.contains(&test.name))
        .filter(|test| {
            options.only.is_empty() || options.only.iter().any(|w| test.name.contains(w))
        })
        .collect();
    let left_out = count - wanted.len();
    let wanted = vec![wanted; options.repeat].concat();
    let mut wanted: Vec<(usize, Test)> = wanted.into_iter().enumerate().collect();
    let mut times = last_times(options);
    wanted.sort_by(|(_, a), (_, b)| {
        times
            .get(&b.name)
            .unwrap_or(&0.0)
            .total_cmp(times.get(&a.name).unwrap_or(&0.0))
    });
    let started = Instant::now();
    let outcomes = run_all(options, wanted)?;
    sweep();
    if signals::ended() {
        return Err("ended by a signal; what the tests had made is removed".into());
    }
    times.extend(outcomes.iter().map(|o| (o.name.clone(), o.seconds)));
    save_times(options, &times)?;
    print!(
        "{}",
        report(
            &outcomes,
            options.jobs == 1,
            left_out,
            started.elapsed().as_secs_f64()
        )
    );
    Ok(outcomes.iter().all(|o| o.passed))
}

fn list(options: &Options) -> Result<Vec<Test>, String> {
    let mut all = Vec::new();
    for binary in &options.binaries {
        let mut command = Command::new(binary);
        let output = command.args(["--list", "--format", "terse"]).output();
        let output = output.map_err(|e| format!("{}: {e}", binary.display()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
        all.extend(names.map(|name| Test {
            binary: binary.clone(),
            name: name.to_owned(),
        }));
    }
    if all.is_empty() {
        return Err("no test was found in the binaries".into());
    }
    Ok(all)
}

/// An unknown name would leave out nothing, and nobody would see it.
fn exceptions(options: &Options, all: &[Test]) -> Result<BTreeSet<String>, String> {
    let Some(path) = &options.except else {
        return Ok(BTreeSet::new());
    };
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut names = BTreeSet::new();
    for line in text
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
    {
        let (name, reason) = line.split_once(' ').unwrap_or((line, ""));
        if reason.trim().is_empty() || !all.iter().any(|test| test.name == name) {
            let place = path.display();
            return Err(format!(
                "{place}: {name} is no test, or its reason is missing"
            ));
        }
        names.insert(name.to_owned());
    }
    Ok(names)
}

fn last_times(options: &Options) -> BTreeMap<String, f64> {
    let text = options
        .times
        .as_ref()
        .and_then(|p| fs::read_to_string(p).ok());
    let text = text.unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let read = lines.filter_map(|(name, s)| Some((name.to_owned(), s.parse().ok()?)));
    read.collect()
}

fn save_times(options: &Options, times: &BTreeMap<String, f64>) -> Result<(), String> {
    let Some(path) = &options.times else {
        return Ok(());
    };
    let mut text = String::new();
    for (name, seconds) in times {
        let _ = writeln!(text, "{name} {seconds:.3}");
    }
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

/// The tests not yet claimed by another run, each with its number in the list.
struct Queue<'a> {
    tests: Mutex<VecDeque<(usize, Test)>>,
    claims: Option<&'a Path>,
}

impl Queue<'_> {
    fn next(&self) -> io::Result<Option<Test>> {
        while !signals::ended() {
            let mut tests = self.tests.lock().unwrap_or_else(PoisonError::into_inner);
            let Some((number, test)) = tests.pop_front() else {
                break;
            };
            drop(tests);
            if self.claim(number)? {
                return Ok(Some(test));
            }
        }
        Ok(None)
    }

    /// Whether the test is this run's. A folder can be created only once, also over 9p.
    fn claim(&self, number: usize) -> io::Result<bool> {
        let Some(claims) = self.claims else {
            return Ok(true);
        };
        match fs::create_dir(claims.join(number.to_string())) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn run_all(options: &Options, tests: Vec<(usize, Test)>) -> Result<Vec<Outcome>, String> {
    let queue = Queue {
        tests: Mutex::new(tests.into()),
        claims: options.claims.as_deref(),
    };
    let outcomes = Mutex::new(Vec::new());
    let work = || -> io::Result<()> {
        while let Some(test) = queue.next()? {
            let outcome = run_one(&test);
            let word = if outcome.passed { "ok" } else { "FAILED" };
            println!(
                "test {} ... {word} <{:.1}s, {:.1}s>",
                outcome.name, outcome.seconds, outcome.busy
            );
            let mut all = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(outcome);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs.max(1))
            .map(|_| scope.spawn(work))
            .collect();
        let ended = workers.into_iter().map(|worker| worker.join());
        ended.collect::<Result<io::Result<()>, _>>()
    })
    .map_err(|_| "a thread of the suite panicked".to_owned())?
    .map_err(|e| format!("--claims: {e}"))?;
    Ok(outcomes
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner))
}

fn run_one(test: &Test) -> Outcome {
    let (started, busy_before) = (Instant::now(), busy());
    let dir = folder();
    let log = dir.path().join("output");
    let ended = wait_for(test, &log);
    let mut output = fs::read_to_string(&log).unwrap_or_default();
    let passed = match ended {
        Ok(status) if status.signal().is_some() => {
            let _ = writeln!(
                output,
                "ended by {status}; it may take {} s",
                LIMIT.as_secs()
            );
            false
        }
        Ok(status) => status.success() && output.contains("1 passed"),
        Err(error) => {
            let _ = writeln!(output, "it could not be run: {error}");
            false
        }
    };
    Outcome {
        name: test.name.clone(),
        passed,
        seconds: started.elapsed().as_secs_f64(),
        busy: busy() - busy_before,
        output,
    }
}

/// Busy seconds of all processors since the host started: proc_stat(5).
fn busy() -> f64 {
    const TICKS: f64 = 100.0;
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let total = text.lines().next().unwrap_or_default();
    let states = total.split_whitespace().skip(1);
    // user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user's.
    let worked = states
        .enumerate()
        .filter(|(i, _)| ![3, 4, 8, 9].contains(i));
    let ticks: f64 = worked.filter_map(|(_, n)| n.parse::<f64>().ok()).sum();
    ticks / TICKS
}

fn wait_for(test: &Test, log: &Path) -> io::Result<ExitStatus> {
    let file = fs::File::create(log)?;
    let mut command = Command::new(&test.binary);
    command.args(["--exact", &test.name, "--nocapture", "--test-threads=1"]);
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    // A group of its own: Ctrl-C reaches this process alone, and it then removes the tests' leftovers.
    command.process_group(0);
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(die_with_parent) };
    let mut child = command.spawn()?;
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if signals::ended() || started.elapsed() > LIMIT {
            child.kill()?;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn slowest(text: &mut String, title: &str, outcomes: &[Outcome], by: fn(&Outcome) -> f64) {
    let mut sorted: Vec<&Outcome> = outcomes.iter().collect();
    sorted.sort_by(|a, b| by(b).total_cmp(&by(a)));
    let _ = writeln!(text, "\n{title}:");
    for outcome in sorted.iter().take(SLOWEST) {
        let _ = writeln!(text, "{:8.1} s  {}", by(outcome), outcome.name);
    }
}

/// In the words of cargo's tests. `alone`: no two tests ran at once.
fn report(outcomes: &[Outcome], alone: bool, left_out: usize, seconds: f64) -> String {
    let mut text = String::new();
    for failed in outcomes.iter().filter(|o| !o.passed) {
        let _ = writeln!(text, "\n---- {} ----\n{}", failed.name, failed.output);
    }
    slowest(&mut text, &format!("slowest {SLOWEST}"), outcomes, |o| {
        o.seconds
    });
    if alone {
        let title = format!("slowest {SLOWEST} by time of the processor");
        slowest(&mut text, &title, outcomes, |o| o.busy);
    }
    let failed: Vec<&str> = outcomes
        .iter()
        .filter(|o| !o.passed)
        .map(|o| o.name.as_str())
        .collect();
    if !failed.is_empty() {
        let _ = writeln!(text, "\nfailures:\n    {}", failed.join("\n    "));
    }
    let word = if failed.is_empty() { "ok" } else { "FAILED" };
    let passed = outcomes.len() - failed.len();
    let _ = writeln!(
        text,
        "\ntest result: {word}. {passed} passed; {} failed; 0 ignored; 0 measured; {left_out} \
         filtered out; finished in {seconds:.2}s",
        failed.len()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &str, passed: bool, seconds: f64) -> Outcome {
        let (name, output) = (name.to_owned(), "it broke".to_owned());
        Outcome {
            name,
            passed,
            seconds,
            busy: 0.0,
            output,
        }
    }

    #[test]
    fn report_lists_slowest_first_and_shows_failures() {
        let text = report(
            &[outcome("quick", true, 0.5), outcome("slow", false, 7.25)],
            false,
            3,
            8.0,
        );
        let slow = text
            .find("     7.2 s  slow")
            .or(text.find("     7.3 s  slow"))
            .unwrap();
        assert!(slow < text.find("     0.5 s  quick").unwrap(), "{text}");
        assert!(text.contains("---- slow ----\nit broke"), "{text}");
        assert!(!text.contains("---- quick"), "{text}");
        let last = text.lines().last().unwrap();
        let wanted =
            "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 3 filtered out";
        assert!(last.starts_with(wanted), "{last}");
    }

    #[test]
    fn each_test_is_claimed_by_one_run() {
        let dir = folder();
        let numbered = |number: usize| {
            let (binary, name) = (PathBuf::new(), number.to_string());
            (number, Test { binary, name })
        };
        let queue = || Queue {
            tests: Mutex::new((0..100).map(numbered).collect()),
            claims: Some(dir.path()),
        };
        let (one, other) = (queue(), queue());
        let mut names = BTreeSet::new();
        while let Some(test) = one.next().unwrap() {
            assert!(names.insert(test.name));
            if let Some(test) = other.next().unwrap() {
                assert!(names.insert(test.name));
            }
        }
        assert_eq!(names.len(), 100);
        let nowhere = dir.path().join("none");
        let claims = Some(nowhere.as_path());
        assert!(Queue { claims, ..queue() }.next().is_err());
    }

    #[test]
    fn exception_must_name_test_and_reason() {
        let dir = folder();
        let path = dir.path().join("list");
        let test = Test {
            binary: PathBuf::new(),
            name: "life::it_lives".to_owned(),
        };
        let options = Options {
            except: Some(path.clone()),
            ..Options::default()
        };
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            exceptions(&options, std::slice::from_ref(&test))
        };
        let names = read("# why\n\nlife::it_lives  refusals are the command's\n").unwrap();
        assert_eq!(names, BTreeSet::from([test.name.clone()]));
        assert!(read("life::it_lives\n").is_err());
        assert!(read("life::it_died  for this reason\n").is_err());
    }
}
