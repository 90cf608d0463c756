//! `[socket]`: the access to the control socket.

use super::settings::settings;

settings! {
    /// `[socket]`: the control socket.
    Socket {
        /// Group whose members may read: `status`, `paths`, `flows`, `explain`, `report`, `top`, `metrics` and
        /// `state export`. It is a name of /etc/group, or a number. Only root may change anything. "": only
        /// root may ask.
        group: String = String::new();
    }
}
