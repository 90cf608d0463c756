//! A server whose address may be taken. Any user of the host may take a port, so its product works without it, reports
//! this, and tries again each second.

use std::{net::SocketAddr, sync::Arc};

use super::{Server, Source};

/// A server, or what it lacks.
pub enum PatientServer {
    /// The address is taken, or not this host's yet.
    Lacking {
        /// The address.
        address: SocketAddr,
        /// The content, for later.
        source: Arc<dyn Source>,
        /// The reason, as it was logged.
        why: String,
    },
    /// It answers.
    Open(Server),
}

impl PatientServer {
    /// Answers at this address, if it is free.
    pub fn open(address: SocketAddr, source: Arc<dyn Source>) -> PatientServer {
        let mut server = PatientServer::Lacking {
            address,
            source,
            why: String::new(),
        };
        server.retry();
        server
    }

    /// A server that answers already.
    pub fn of(server: Server) -> PatientServer {
        tracing::info!("metrics are at http://{}/metrics", server.address);
        PatientServer::Open(server)
    }

    /// Tries to listen if it does not; call this once a second. Logs each reason once.
    pub fn retry(&mut self) {
        let PatientServer::Lacking {
            address,
            source,
            why,
        } = self
        else {
            return;
        };
        match Server::open(*address, Arc::clone(source)) {
            Ok(server) => *self = PatientServer::of(server),
            Err(failure) if failure.message == *why => {}
            Err(failure) => {
                tracing::warn!("{failure}; will try again each second");
                *why = failure.message;
            }
        }
    }

    /// Why it does not answer, although it should.
    pub fn problem(&self) -> Option<String> {
        match self {
            PatientServer::Lacking { why, .. } => {
                Some(format!("{why}; tcpilot tries again each second"))
            }
            PatientServer::Open(_) => None,
        }
    }

    /// The server, if it answers.
    pub fn server(&self) -> Option<&Server> {
        match self {
            PatientServer::Lacking { .. } => None,
            PatientServer::Open(server) => Some(server),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    struct Nothing;

    impl Source for Nothing {
        fn metrics(&self) -> Result<String, String> {
            Ok(String::new())
        }

        fn alive(&self) -> Result<&'static str, String> {
            Ok("alive")
        }

        fn ready(&self) -> Result<&'static str, String> {
            Ok("ready")
        }
    }

    #[test]
    fn a_taken_address_is_used_once_free() {
        let squatter = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = squatter.local_addr().unwrap();
        let mut server = PatientServer::open(address, Arc::new(Nothing));
        server.retry();
        assert!(server.server().is_none());
        let problem = server.problem().unwrap();
        assert!(
            problem.ends_with("; tcpilot tries again each second"),
            "{problem}"
        );
        drop(squatter);
        server.retry();
        assert_eq!(server.problem(), None);
        assert_eq!(server.server().unwrap().address, address);
    }
}
