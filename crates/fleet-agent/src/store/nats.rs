//! NATS JetStream's key-value store as an engine.
//!
//! A connection that failed or did not answer in time is given up, and the next call makes a new one: nothing waits
//! in a queue of the client's, and certificates that were renewed meanwhile are read again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;
use std::time::Duration;

use async_nats::jetstream::context::{PublishErrorKind, RequestErrorKind};
use async_nats::jetstream::stream::{self, DirectGetErrorKind};
use async_nats::{ConnectErrorKind, ConnectOptions, Event, ServerError, StatusCode, jetstream};
use serde::{Deserialize, Serialize};
use tcpilot_fleet::Name;
use tcpilot_fleet::age::OLDEST_S;
use tokio::sync::watch;

use super::{Entry, HOSTS_MAX, Store, StoreError, VALUE_BYTES_MAX, check_size};
use crate::key::{Host, Key};
use crate::settings::Identity;

/// A client of servers.
pub struct NatsStore {
    servers: Vec<String>,
    bucket: String,
    identity: Option<Identity>,
    /// Answers come to a subject below it, so hosts may be restricted to their own.
    inbox: String,
    timeout: Duration,
    connection: RefCell<Option<Rc<Connection>>>,
}

struct Connection {
    context: jetstream::Context,
    /// The last violation of a right. The server reports those apart, and does not answer the request.
    violations: watch::Receiver<String>,
}

/// A bucket's settings, as far as a fleet depends on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Values kept of a key.
    pub history: i64,
    /// Age at which the server deletes a value; zero for never.
    pub max_age: Duration,
    /// Bytes of the largest value; −1 for the server's own limit.
    pub value_bytes_max: i64,
    /// Whether values may be had without the stream's leader.
    pub is_direct: bool,
}

impl Bucket {
    /// What is wrong with it for a fleet.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let oldest = Duration::from_secs_f64(OLDEST_S);
        let value_bytes = VALUE_BYTES_MAX as i64;
        let mut faults = Vec::new();
        if self.history != 1 {
            faults.push(format!(
                "it keeps {} values of a key instead of 1",
                self.history
            ));
        }
        if self.max_age.is_zero() || self.max_age < oldest {
            faults.push(format!(
                "it keeps values for {:?} instead of 24 h",
                self.max_age
            ));
        }
        if self.value_bytes_max >= 0 && self.value_bytes_max < value_bytes {
            faults.push(format!(
                "values are at most {} bytes instead of {value_bytes}",
                self.value_bytes_max
            ));
        }
        if !self.is_direct {
            faults.push("it does not allow direct gets".to_owned());
        }
        faults
    }
}

/// The part of `STREAM.INFO` that is used.
#[derive(Deserialize)]
struct Info {
    #[serde(default)]
    config: Config,
    #[serde(default)]
    state: State,
    error: Option<jetstream::Error>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    max_msgs_per_subject: i64,
    /// Nanoseconds.
    max_age: u64,
    max_msg_size: i64,
    allow_direct: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct State {
    subjects: Option<HashMap<String, u64>>,
}

#[derive(Serialize)]
struct InfoRequest {
    subjects_filter: String,
}

impl NatsStore {
    /// A client that connects when it is first used.
    #[must_use]
    pub fn new(
        servers: &[String],
        bucket: &str,
        identity: Option<&Identity>,
        host: &Host,
        timeout: Duration,
    ) -> Self {
        Self {
            servers: servers.to_vec(),
            bucket: bucket.to_owned(),
            identity: identity.cloned(),
            inbox: format!("_INBOX.{}-{}", host.place, host.name),
            timeout,
            connection: RefCell::new(None),
        }
    }

    /// The connection, a new one if there is none.
    async fn connected(&self) -> Result<Rc<Connection>, StoreError> {
        if let Some(connection) = self.connection.borrow().as_ref() {
            return Ok(Rc::clone(connection));
        }
        let connection = Rc::new(self.connect().await?);
        *self.connection.borrow_mut() = Some(Rc::clone(&connection));
        Ok(connection)
    }

    async fn connect(&self) -> Result<Connection, StoreError> {
        let (violated, violations) = watch::channel(String::new());
        let mut options = ConnectOptions::new()
            .name("tcpilot-fleet")
            .custom_inbox_prefix(&self.inbox)
            .connection_timeout(self.timeout)
            .request_timeout(Some(self.timeout))
            .event_callback(move |event| {
                if let Event::ServerError(ServerError::Other(text)) = event {
                    violated.send_replace(text);
                }
                async {}
            });
        if let Some(identity) = &self.identity {
            check_files(identity)?;
            options = options
                .require_tls(true)
                .add_root_certificates(identity.ca_file.clone())
                .add_client_certificate(identity.cert_file.clone(), identity.key_file.clone());
        }
        let connect = options.connect(self.servers.as_slice());
        let client = match tokio::time::timeout(self.timeout, connect).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(self.connect_failed(&error)),
            Err(_) => return Err(self.silent()),
        };
        let context = jetstream::ContextBuilder::new()
            .timeout(self.timeout)
            .build(client);
        Ok(Connection {
            context,
            violations,
        })
    }

    fn silent(&self) -> StoreError {
        let (servers, seconds) = (self.servers.join(", "), self.timeout.as_secs_f64());
        StoreError::Unreachable(format!("{servers} did not answer within {seconds} s"))
    }

    fn connect_failed(&self, error: &async_nats::ConnectError) -> StoreError {
        let servers = self.servers.join(", ");
        if let Some(tls) = tls_error(error) {
            return StoreError::Untrusted(format!("{servers}: {}", tls_text(tls)));
        }
        match error.kind() {
            ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                StoreError::Untrusted(format!("{servers} knows no user of this certificate"))
            }
            ConnectErrorKind::Tls => StoreError::Settings(chain(error)),
            ConnectErrorKind::TimedOut => self.silent(),
            _ => StoreError::Unreachable(format!("{servers}: {}", chain(error))),
        }
    }

    /// Does one thing within the time-out. A violation of a right ends it at once.
    async fn ask<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        work: impl FnOnce(Rc<Connection>) -> F,
    ) -> Result<T, StoreError> {
        let connection = self.connected().await?;
        let mut violations = connection.violations.clone();
        violations.mark_unchanged();
        let done = tokio::select! {
            done = tokio::time::timeout(self.timeout, work(connection)) => {
                done.unwrap_or_else(|_| Err(self.silent()))
            }
            Ok(()) = violations.changed() => {
                let text = violations.borrow().clone();
                Err(StoreError::Denied(text))
            }
        };
        if matches!(done, Err(StoreError::Unreachable(_))) {
            *self.connection.borrow_mut() = None;
        }
        done
    }

    fn subject(&self, key: impl std::fmt::Display) -> String {
        format!("$KV.{}.{key}", self.bucket)
    }

    /// Makes the fleet's bucket, or corrects it. Needs the rights of an administrator.
    ///
    /// # Errors
    /// As the functions of [`Store`].
    pub async fn init(&self, replicas: usize) -> Result<(), StoreError> {
        // What the clients of NATS call a key-value bucket is a stream of such settings. Their own function for it asks
        // for the account first, and cannot read the answer of servers before 2.10.
        let config = stream::Config {
            name: format!("KV_{}", self.bucket),
            description: Some("tcpilot: what hosts know of paths".to_owned()),
            subjects: vec![self.subject(">")],
            max_messages_per_subject: 1,
            max_age: Duration::from_secs_f64(OLDEST_S),
            max_message_size: VALUE_BYTES_MAX as i32,
            discard: stream::DiscardPolicy::New,
            num_replicas: replicas,
            allow_direct: true,
            allow_rollup: true,
            deny_delete: true,
            ..stream::Config::default()
        };
        self.ask(|connection| async move {
            let made = connection.context.create_or_update_stream(config);
            made.await.map(drop).map_err(|error| failed(&error))
        })
        .await
    }

    /// The bucket's settings.
    ///
    /// # Errors
    /// As the functions of [`Store`].
    pub async fn bucket(&self) -> Result<Bucket, StoreError> {
        let config = self.info("none").await?.config;
        Ok(Bucket {
            history: config.max_msgs_per_subject,
            max_age: Duration::from_nanos(config.max_age),
            value_bytes_max: config.max_msg_size,
            is_direct: config.allow_direct,
        })
    }

    /// The stream's description, with its subjects of a filter.
    async fn info(&self, keys: &str) -> Result<Info, StoreError> {
        let request = InfoRequest {
            subjects_filter: self.subject(keys),
        };
        let subject = format!("STREAM.INFO.KV_{}", self.bucket);
        let bucket = self.bucket.clone();
        self.ask(|connection| async move {
            let info: Result<Info, _> = connection.context.request(subject, &request).await;
            let info = info.map_err(|error| match error.kind() {
                RequestErrorKind::NoResponders => StoreError::NotSetUp(
                    "the server has no JetStream, or it is starting".to_owned(),
                ),
                _ => failed(&error),
            })?;
            match info.error {
                Some(error) => Err(refusal(&error, format!("bucket {bucket}: {error}"))),
                None => Ok(info),
            }
        })
        .await
    }

    /// A server without the bucket does not answer for its keys. Then its description tells more than the silence.
    async fn explained(&self, error: StoreError) -> StoreError {
        if !matches!(error, StoreError::Unreachable(_)) {
            return error;
        }
        match tokio::time::timeout(self.timeout, self.info("none")).await {
            Ok(Err(named)) if !matches!(named, StoreError::Unreachable(_)) => named,
            _ => error,
        }
    }

    /// Nobody answers for the bucket.
    fn no_bucket(bucket: &str) -> StoreError {
        StoreError::NotSetUp(format!(
            "there is no bucket {bucket}, or the server is starting"
        ))
    }
}

impl NatsStore {
    async fn put_value(&self, key: &Key, value: &[u8]) -> Result<(), StoreError> {
        check_size(key, value)?;
        let (subject, value) = (self.subject(key), value.to_owned());
        let bucket = self.bucket.clone();
        self.ask(|connection| async move {
            let sent = connection.context.publish(subject, value.into()).await;
            let acknowledged = sent.map_err(|error| failed(&error))?.await;
            acknowledged.map(drop).map_err(|error| match error.kind() {
                PublishErrorKind::StreamNotFound => Self::no_bucket(&bucket),
                _ => failed(&error),
            })
        })
        .await
    }

    async fn get_value(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        let (subject, key) = (self.subject(key), key.to_string());
        let (stream, bucket) = (format!("KV_{}", self.bucket), self.bucket.clone());
        self.ask(|connection| async move {
            // Without asking for the stream: it is there, or nobody answers.
            let stream = connection.context.get_stream_no_info(stream).await;
            let stream = stream.map_err(|error| failed(&error))?;
            let message = stream.direct_get_last_for_subject(subject).await;
            let message = match message {
                Ok(message) => message,
                Err(error) => {
                    return match error.kind() {
                        DirectGetErrorKind::NotFound => Ok(None),
                        DirectGetErrorKind::ErrorResponse(StatusCode::NO_RESPONDERS, _) => {
                            Err(Self::no_bucket(&bucket))
                        }
                        _ => Err(failed(&error)),
                    };
                }
            };
            // A deleted key is a message of that kind.
            if message.headers.get("KV-Operation").is_some() {
                return Ok(None);
            }
            if message.payload.len() > VALUE_BYTES_MAX {
                return Err(StoreError::TooLarge(key));
            }
            Ok(Some(Entry {
                value: message.payload.to_vec(),
                written_s: message.time.unix_timestamp_nanos() as f64 / 1e9,
            }))
        })
        .await
    }
}

impl Store for NatsStore {
    async fn put(&self, key: &Key, value: &[u8]) -> Result<(), StoreError> {
        match self.put_value(key, value).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.explained(error).await),
        }
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        match self.get_value(key).await {
            Ok(entry) => Ok(entry),
            Err(error) => Err(self.explained(error).await),
        }
    }

    /// The subjects of the stream, from its description: no consumer is made.
    async fn hosts(&self, place: &Name) -> Result<Vec<Host>, StoreError> {
        let info = self.info(&format!("h.{place}.*.i")).await?;
        let subjects = info.state.subjects.unwrap_or_default();
        if subjects.len() > HOSTS_MAX {
            return Err(StoreError::TooLarge(format!(
                "the list of hosts of {place}"
            )));
        }
        let prefix = self.subject("");
        let keys = subjects
            .keys()
            .filter_map(|subject| subject.strip_prefix(&prefix));
        let hosts = keys.filter_map(|key| Key::host_of_manifest(key, place));
        let mut hosts: Vec<Host> = hosts.collect();
        hosts.sort();
        Ok(hosts)
    }
}

/// Looks at the files before the client does, whose messages do not name them.
fn check_files(identity: &Identity) -> Result<(), StoreError> {
    let files = [
        ("ca_file", &identity.ca_file),
        ("cert_file", &identity.cert_file),
        ("key_file", &identity.key_file),
    ];
    for (key, path) in files {
        let fail = |error: &dyn std::fmt::Display| {
            StoreError::Settings(format!("{key} = \"{}\": {error}", path.display()))
        };
        let file = File::open(path).map_err(|error| fail(&error))?;
        let mode = file.metadata().map_err(|error| fail(&error))?;
        if key == "key_file" && mode.permissions().mode() & 0o007 != 0 {
            return Err(fail(&"everybody can read the key; run chmod o= on it"));
        }
    }
    Ok(())
}

/// The error of TLS behind another one.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        if let Some(found) = inner.and_then(|inner| inner.downcast_ref()) {
            return Some(found);
        }
        next = error.source();
    }
    None
}

fn tls_text(error: &rustls::Error) -> String {
    use rustls::CertificateError as Bad;
    match error {
        rustls::Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => {
            "the server's certificate is not signed by ca_file".to_owned()
        }
        rustls::Error::InvalidCertificate(
            Bad::NotValidForName | Bad::NotValidForNameContext { .. },
        ) => "the server's certificate is for another name than that in `store`".to_owned(),
        rustls::Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
            "the server's certificate has expired, or this host's clock is wrong".to_owned()
        }
        rustls::Error::AlertReceived(alert) => {
            format!("the server refuses this host's certificate ({alert:?})")
        }
        other => other.to_string(),
    }
}

/// All messages of an error.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if !texts.iter().any(|known| known.contains(&text)) {
            texts.push(text);
        }
        next = error.source();
    }
    texts.join(": ")
}

/// The reason of a failed request.
fn failed(error: &(dyn Error + 'static)) -> StoreError {
    let mut next = Some(error);
    while let Some(inner) = next {
        if let Some(refused) = inner.downcast_ref::<jetstream::Error>() {
            return refusal(refused, chain(error));
        }
        next = inner.source();
    }
    StoreError::Unreachable(chain(error))
}

fn refusal(error: &jetstream::Error, text: String) -> StoreError {
    use jetstream::ErrorCode as Code;
    let code = error.error_code();
    match code {
        Code::STREAM_NOT_FOUND
        | Code::JETSTREAM_NOT_ENABLED
        | Code::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => StoreError::NotSetUp(text),
        Code::STREAM_MESSAGE_EXCEEDS_MAXIMUM => StoreError::TooLarge(text),
        Code::ACCOUNT_RESOURCES_EXCEEDED
        | Code::INSUFFICIENT_RESOURCES
        | Code::MEMORY_RESOURCES_EXCEEDED
        | Code::STORAGE_RESOURCES_EXCEEDED
        | Code::STREAM_MAX_STREAM_BYTES_EXCEEDED
        | Code::STREAM_STORE_FAILED => StoreError::Full(text),
        _ => StoreError::Unreachable(text),
    }
}
