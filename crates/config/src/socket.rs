//! `[socket]`: the access to the control socket.

use super::settings::settings;

settings! {
    /// `[socket]`: the control socket.
    Socket {
        /// Group whose members may ask, but change nothing: a name of /etc/group, or a number. "": only root may
        /// ask.
        group: String = String::new();
    }
}
