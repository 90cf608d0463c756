//! Devices by name and by index, in this network namespace.

/// The index of a device of this network namespace; 0 if there is none of this name.
pub fn index_of(name: &str) -> u32 {
    let Ok(socket) = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    ) else {
        return 0;
    };
    rustix::net::netdevice::name_to_index(&socket, name).unwrap_or(0)
}

/// The name of a device of this network namespace, by its index.
pub fn name_of(index: u32) -> Option<String> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    );
    rustix::net::netdevice::index_to_name(socket.ok()?, index).ok()
}
