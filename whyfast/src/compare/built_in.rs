//! The recipes that are built in, with their templates.

/// A recipe that is built in: its name, its file, and its templates by file name.
type BuiltIn = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

/// A recipe of a folder under `recipes`, with the names of its templates, and the folder of each where that is
/// another one's.
macro_rules! built_in {
    ($name:literal $(, $template:literal = $folder:literal)*) => {
        (
            $name,
            include_str!(concat!("../../recipes/", $name, "/recipe.toml")),
            &[$((
                $template,
                include_str!(concat!("../../recipes/", $folder, "/", $template)),
            )),*],
        )
    };
    ($name:literal $(, $template:literal)*) => {
        built_in!($name $(, $template = $name)*)
    };
}

/// Sorted by name.
const BUILT_IN: &[BuiltIn] = &[
    built_in!("caddy", "Caddyfile"),
    built_in!("express", "server.js"),
    built_in!("express-spdy", "server.js" = "express"),
    built_in!("h2o", "h2o.conf"),
    built_in!("haproxy", "haproxy.cfg"),
    built_in!("haproxy-nginx"),
    built_in!("hitch", "hitch.conf"),
    built_in!("hitch-haproxy-nginx"),
    built_in!("hitch-varnish-nginx"),
    built_in!("lighttpd", "lighttpd.conf"),
    built_in!("nginx", "nginx.conf"),
    built_in!("nginx-express"),
    built_in!("nginx-nginx"),
    built_in!("node", "server.js"),
    built_in!("nuster", "nuster.cfg"),
    built_in!("nuster-nginx"),
    built_in!("varnish", "default.vcl"),
];

/// The names of all.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, ..)| *name)
}

/// The text of a recipe.
pub(crate) fn recipe(name: &str) -> Option<&'static str> {
    let mut recipes = BUILT_IN.iter();
    recipes.find_map(|(known, text, _)| (*known == name).then_some(*text))
}

/// The text of a file beside a recipe.
pub(crate) fn template(recipe: &str, template: &str) -> Option<&'static str> {
    let (.., templates) = BUILT_IN.iter().find(|(name, ..)| *name == recipe)?;
    let mut templates = templates.iter();
    templates.find_map(|(name, text)| (*name == template).then_some(*text))
}
