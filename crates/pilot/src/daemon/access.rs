//! Access to the control socket. Its owner, root, may do everything. If the configuration names a group
//! (`[socket] group`), members of that group may read.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::{
        fs::{PermissionsExt, chown},
        net::UnixStream,
    },
    path::Path,
};

use rustix::{
    fs::{XattrFlags, removexattr, setxattr},
    net::sockopt::socket_peercred,
    process::geteuid,
};

use crate::args::DEFAULT_SOCKET;

/// The extended attribute of a file's access control list, acl(5).
const ACL: &str = "system.posix_acl_access";
const READ_WRITE: u16 = 6;
const SEARCH: u16 = 1;

/// A client's user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// Root, or the daemon's own user. It may change something.
    Owner,
    /// Another user, by its number. It may only read.
    Guest(u32),
}

/// The user at the other end of a connection. A user that the kernel does not name is a guest.
pub fn user(client: &UnixStream) -> User {
    match socket_peercred(client).map(|peer| peer.uid) {
        Ok(uid) if uid.is_root() || uid == geteuid() => User::Owner,
        Ok(uid) => User::Guest(uid.as_raw()),
        Err(_) => User::Guest(u32::MAX),
    }
}

/// The number of a group: a name of /etc/group, or the number itself.
fn number_of(group: &str) -> Option<u32> {
    if let Ok(number) = group.parse() {
        return Some(number);
    }
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    number_in(&groups, group)
}

/// Finds a group in the text of /etc/group: the name is the first field, the number the third, group(5).
fn number_in(groups: &str, group: &str) -> Option<u32> {
    let mut lines = groups.lines().map(|line| line.split(':'));
    let mut fields = lines.find_map(|mut fields| (fields.next()? == group).then_some(fields))?;
    fields.nth(1)?.parse().ok()
}

/// Lets a group use the socket, and nobody else but its owner; "" means no group. The group may also enter
/// the folder of the default socket. Any other folder keeps its mode.
///
/// # Errors
/// A sentence: the group does not exist, or cannot get access. Only the owner may then use the socket.
pub fn share(socket: &Path, group: &str) -> Result<(), String> {
    let folder = socket
        .parent()
        .filter(|folder| Path::new(DEFAULT_SOCKET).parent() == Some(folder));
    withdraw(socket).map_err(|error| error.to_string())?;
    if group.is_empty() {
        return Ok(());
    }
    let number = number_of(group).ok_or_else(|| {
        format!("only root may use the control socket: `group` in [socket] is {group}, and /etc/group has no such group")
    })?;
    let shared = admit(socket, number, READ_WRITE, READ_WRITE);
    shared
        .and_then(|()| folder.map_or(Ok(()), |folder| admit(folder, number, 7, SEARCH)))
        .map_err(|error| format!("only root may use the control socket: the group {group} cannot be given access: {error}"))
}

/// Takes access back from every group.
fn withdraw(socket: &Path) -> io::Result<()> {
    let _ = removexattr(socket, ACL); // there may be none
    fs::set_permissions(socket, Permissions::from_mode(0o600))
}

/// Gives a group access by making it the file's group. This needs CAP_CHOWN, and a service may lack it.
/// Without it an access control list serves: it needs only the ownership of the file.
fn admit(file: &Path, group: u32, owner: u16, members: u16) -> io::Result<()> {
    match chown(file, None, Some(group)) {
        Ok(()) => fs::set_permissions(
            file,
            Permissions::from_mode((u32::from(owner) << 6) | (u32::from(members) << 3)),
        ),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(setxattr(
            file,
            ACL,
            &list(group, owner, members),
            XattrFlags::empty(),
        )?),
        Err(error) => Err(error),
    }
}

/// An access control list in the kernel's format, linux/posix_acl_xattr.h: a version, then entries of a
/// kind, permissions and an id, in the order of their kinds.
fn list(group: u32, owner: u16, members: u16) -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let (owners, others) = (0x01, 0x20);
    let (of_group, named_group, mask) = (0x04, 0x08, 0x10);
    let entries = [
        (owners, owner, NOBODY),
        (of_group, 0, NOBODY),
        (named_group, members, group),
        (mask, members, NOBODY),
        (others, 0, NOBODY),
    ];
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (kind, permissions, id) in entries {
        bytes.extend(u16::to_le_bytes(kind));
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_is_found_by_name_or_number() {
        let groups = "root:x:0:\nadm:x:4:me,you\nadmins:x:1004:\nbroken\n";
        assert_eq!(number_in(groups, "adm"), Some(4));
        assert_eq!(number_in(groups, "admins"), Some(1004));
        assert_eq!(number_in(groups, "ad"), None);
        assert_eq!(number_in(groups, "broken"), None);
        assert_eq!(number_of("1234"), Some(1234));
        assert_eq!(number_of("root"), Some(0));
    }

    /// The kernel refuses a malformed list, and a read returns the list in force.
    #[test]
    fn the_kernel_takes_the_list() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let written = list(12345, 6, 6);
        setxattr(&file, ACL, &written, XattrFlags::empty()).unwrap();
        let mut read = vec![0; 200];
        let length = rustix::fs::getxattr(&file, ACL, &mut read).unwrap();
        assert_eq!(&read[..length], written);
        let mode = |file: &Path| fs::metadata(file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&file), 0o660, "the mask");
        withdraw(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
        assert!(rustix::fs::getxattr(&file, ACL, &mut read).is_err());
    }
}
