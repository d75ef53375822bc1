//! Which server an arm is, and what is changed where.

use recording::{Arm, ArmKind};

/// A server whose settings are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    Caddy,
    H2o,
    Haproxy,
    Nginx,
    Node,
    Other,
}

impl Server {
    /// The name of its program.
    pub(super) fn name(self) -> &'static str {
        let known = SERVERS.iter().find(|(_, server)| *server == self);
        known.map_or("other", |(name, _)| name)
    }

    /// The server of an arm, by its recipe, or by the program that is run.
    pub(super) fn of(arm: &Arm, comms: &[&str]) -> Self {
        let program = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let mut names: Vec<String> = Vec::new();
        match arm.kind {
            ArmKind::Recipe => names.extend(arm.spec.split([':', '@']).next().map(program)),
            ArmKind::Command => names.extend(arm.command.iter().map(|word| program(word))),
            ArmKind::Live => {}
            ArmKind::Testserver => return Self::Other,
        }
        names.extend(comms.iter().map(|comm| program(comm)));
        let known = names.iter().find_map(|name| {
            let is = |known: &str| name == known || name.starts_with(&format!("{known} "));
            SERVERS
                .iter()
                .find(|(known, _)| is(known))
                .map(|(_, server)| *server)
        });
        known.unwrap_or(Self::Other)
    }
}

/// What to change: for each server that is known, then for any.
pub(super) struct Advice {
    pub(super) servers: &'static [(Server, &'static str)],
    pub(super) any: &'static str,
}

impl Advice {
    pub(super) fn for_server(&self, server: Server) -> &'static str {
        let own = self.servers.iter().find(|(known, _)| *known == server);
        own.map_or(self.any, |(_, text)| text)
    }
}

const SERVERS: [(&str, Server); 7] = [
    ("caddy", Server::Caddy),
    ("h2o", Server::H2o),
    ("haproxy", Server::Haproxy),
    ("nginx", Server::Nginx),
    ("nginx:", Server::Nginx),
    ("node", Server::Node),
    ("nodejs", Server::Node),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(kind: ArmKind, spec: &str, command: &[&str]) -> Arm {
        Arm {
            hops: Vec::new(),
            name: "x".to_owned(),
            kind,
            spec: spec.to_owned(),
            version: None,
            settings: Vec::new(),
            config: Vec::new(),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            build: Vec::new(),
            binary_sha256: None,
            response: None,
        }
    }

    /// Recipes by their name, commands by their program, live servers by the name of a process.
    #[test]
    fn servers_are_recognised() {
        let recipe = |spec| Server::of(&arm(ArmKind::Recipe, spec, &[]), &[]);
        assert_eq!(recipe("nginx:seed"), Server::Nginx);
        assert_eq!(recipe("h2o@/opt/h2o/bin/h2o"), Server::H2o);
        let command = arm(ArmKind::Command, "x=cmd:...", &["/usr/bin/node", "app.js"]);
        assert_eq!(Server::of(&command, &[]), Server::Node);
        let live = arm(ArmKind::Live, "x=http://localhost/,pid=1", &[]);
        assert_eq!(Server::of(&live, &["nginx: worker"]), Server::Nginx);
        assert_eq!(Server::of(&live, &["nginxlike"]), Server::Other);
        let built_in = arm(ArmKind::Testserver, "testserver:writev", &["nginx"]);
        assert_eq!(Server::of(&built_in, &[]), Server::Other);
    }
}
