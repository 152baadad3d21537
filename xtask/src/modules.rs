//! The modules of a crate, and what the paths in their code lead to.
//!
//! [`Modules::read`] follows the `mod` lines from the crate's root. [`Modules::imports`] resolves each path as rustc would for
//! items of the same crate: through `use`, `pub use` and globs to the file that defines the item. An import is a `use`, or a path
//! that begins with `crate`, `super` or `self`. What leads to a module and no further, or out of the crate, is none: a table of
//! commands that calls `cmd::read::handle` may stand above commands and beside what they import. Modules and items under
//! `cfg(test)` are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// How many steps a name may be led on; `use a::b as a` would never end.
const DEEPEST: u32 = 32;

/// Methods of the standard library whose names say nothing of where they are defined.
const COMMON: &[&str] = &[
    "add",
    "all",
    "any",
    "append",
    "as_bytes",
    "as_mut",
    "as_ref",
    "as_slice",
    "as_str",
    "begin",
    "bytes",
    "chain",
    "clear",
    "clone",
    "close",
    "cmp",
    "contains",
    "contains_key",
    "copied",
    "count",
    "drain",
    "end",
    "entry",
    "eq",
    "extend",
    "filter",
    "find",
    "first",
    "flush",
    "from",
    "get",
    "get_mut",
    "hash",
    "index",
    "insert",
    "into",
    "into_inner",
    "is_empty",
    "iter",
    "iter_mut",
    "join",
    "keys",
    "last",
    "len",
    "load",
    "lock",
    "map",
    "max",
    "min",
    "name",
    "ne",
    "new",
    "next",
    "not",
    "open",
    "parse",
    "path",
    "pop",
    "position",
    "push",
    "put",
    "read",
    "recv",
    "remove",
    "replace",
    "reset",
    "retain",
    "send",
    "set",
    "skip",
    "sort",
    "split",
    "start",
    "store",
    "sub",
    "swap",
    "take",
    "then",
    "to_string",
    "to_vec",
    "try_from",
    "try_lock",
    "update",
    "values",
    "wake",
    "write",
    "zip",
];

/// A file of the crate.
pub struct File {
    /// Its path below `src`.
    pub name: String,
    /// Its lines.
    pub lines: usize,
}

/// A module: a file, or what stands in braces in one.
#[derive(Default)]
struct Module {
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// Names that are defined here.
    items: BTreeSet<String>,
    /// Names that a `use` brings in, and the paths they stand for.
    uses: BTreeMap<String, Vec<String>>,
    /// Paths of which all names are brought in.
    globs: Vec<Vec<String>>,
    /// Paths that the code says.
    mentions: Vec<Vec<String>>,
    /// Methods that are defined here.
    methods: Vec<String>,
    /// Those of traits among them.
    trait_methods: Vec<String>,
    /// Methods that are called here.
    calls: Vec<String>,
}

/// The modules of a crate.
pub struct Modules {
    /// Its files.
    pub files: Vec<File>,
    modules: Vec<Module>,
    roots: Vec<usize>,
}

impl Modules {
    /// The modules of the library and of the program in `src`.
    ///
    /// # Errors
    /// A file that cannot be read or parsed, with its path.
    pub fn read(src: &Path) -> Result<Modules, String> {
        let mut all = Modules { files: Vec::new(), modules: Vec::new(), roots: Vec::new() };
        for root in ["lib.rs", "main.rs"] {
            let path = src.join(root);
            if path.is_file() {
                let module = all.add_file(src, &path, src.to_path_buf(), None)?;
                all.roots.push(module);
            }
        }
        Ok(all)
    }

    /// Reads `path`, whose modules stand in `below`.
    fn add_file(
        &mut self,
        src: &Path,
        path: &Path,
        below: PathBuf,
        parent: Option<usize>,
    ) -> Result<usize, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let parsed = syn::parse_file(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        let name = path.strip_prefix(src).unwrap_or(path).to_string_lossy().into_owned();
        let file = self.files.len();
        self.files.push(File { name, lines: text.lines().count() });
        self.add_module(src, file, below, parent, &parsed.items)
    }

    fn add_module(
        &mut self,
        src: &Path,
        file: usize,
        below: PathBuf,
        parent: Option<usize>,
        items: &[syn::Item],
    ) -> Result<usize, String> {
        let own = self.modules.len();
        self.modules.push(Module { file, parent, ..Module::default() });
        for item in items {
            if is_test(attributes(item)) {
                continue;
            }
            if let syn::Item::Mod(inner) = item {
                let name = inner.ident.to_string();
                let child = match &inner.content {
                    Some((_, items)) => self.add_module(src, file, below.join(&name), Some(own), items)?,
                    None => {
                        let (path, its_below) = module_file(&below, inner);
                        self.add_file(src, &path, its_below, Some(own))?
                    }
                };
                self.modules[own].children.insert(name, child);
            } else {
                self.modules[own].take(item);
            }
        }
        Ok(own)
    }

    /// Every import of one file of another.
    pub fn imports(&self) -> BTreeSet<(usize, usize)> {
        let mut found = BTreeSet::new();
        for (own, module) in self.modules.iter().enumerate() {
            let written_out = module.mentions.iter().filter(|path| is_written_out(path));
            for path in module.uses.values().chain(written_out) {
                if let Some(file) = self.defining(own, path, 0).filter(|file| *file != module.file) {
                    found.insert((module.file, file));
                }
            }
            // All names of a module may come of any that it brings in; the module itself is what is known.
            for path in &module.globs {
                if let Some(target) =
                    self.module_at(own, path).filter(|m| self.modules[*m].file != module.file)
                {
                    found.insert((module.file, self.modules[target].file));
                }
            }
        }
        found
    }

    /// Methods of its traits.
    pub fn trait_methods(&self) -> impl Iterator<Item = &String> {
        self.modules.iter().flat_map(|module| &module.trait_methods)
    }

    /// Every call of a method that only one other file defines, and no trait `elsewhere`.
    pub fn calls(&self, elsewhere: &BTreeSet<String>) -> BTreeSet<(usize, usize)> {
        let mut defined: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for module in &self.modules {
            for name in &module.methods {
                defined.entry(name).or_default().insert(module.file);
            }
        }
        let mut found = BTreeSet::new();
        for module in &self.modules {
            let says_where = |name: &&String| !COMMON.contains(&name.as_str()) && !elsewhere.contains(*name);
            for name in module.calls.iter().filter(says_where) {
                if let Some(files) = defined.get(name.as_str()).filter(|files| files.len() == 1) {
                    found.extend(
                        files.iter().filter(|file| **file != module.file).map(|to| (module.file, *to)),
                    );
                }
            }
        }
        found
    }

    /// The file that defines what `path` leads to from `module`; `None` for a module and for what is not of this crate.
    fn defining(&self, module: usize, path: &[String], depth: u32) -> Option<usize> {
        if depth > DEEPEST {
            return None;
        }
        let (mut at, mut rest) = self.start(module, path);
        // The first name may be one of another crate, which no item here has.
        while let Some((name, behind)) = rest.split_first() {
            if let Some(child) = self.modules[at].children.get(name) {
                (at, rest) = (*child, behind);
                continue;
            }
            return self.named(at, name, behind, depth);
        }
        None
    }

    /// The file that defines `name` of the module `at`, with the path `behind` it.
    fn named(&self, at: usize, name: &str, behind: &[String], depth: u32) -> Option<usize> {
        let module = &self.modules[at];
        if module.items.contains(name) {
            return Some(module.file);
        }
        if let Some(target) = module.uses.get(name) {
            let path: Vec<String> = target.iter().chain(behind).cloned().collect();
            return self.defining(at, &path, depth + 1);
        }
        module.globs.iter().find_map(|glob| {
            let path: Vec<String> = glob
                .iter()
                .map(String::as_str)
                .chain([name])
                .map(str::to_owned)
                .chain(behind.iter().cloned())
                .collect();
            self.defining(at, &path, depth + 1)
        })
    }

    /// The module that `path` leads to, if it leads to one.
    fn module_at(&self, module: usize, path: &[String]) -> Option<usize> {
        let (mut at, rest) = self.start(module, path);
        for name in rest {
            at = *self.modules[at].children.get(name)?;
        }
        (rest.len() < path.len() || at != module).then_some(at)
    }

    /// Where a path begins, and what is left of it.
    fn start<'p>(&self, module: usize, path: &'p [String]) -> (usize, &'p [String]) {
        let (mut at, mut rest) = (module, path);
        while let Some((name, behind)) = rest.split_first() {
            at = match name.as_str() {
                "crate" => self.root_of(at),
                "self" => at,
                "super" => self.modules[at].parent.unwrap_or(at),
                _ => break,
            };
            rest = behind;
        }
        (at, rest)
    }

    fn root_of(&self, mut module: usize) -> usize {
        while let Some(parent) = self.modules[module].parent {
            module = parent;
        }
        debug_assert!(self.roots.contains(&module));
        module
    }
}

/// Whether a path in the code says where it begins, so that it needs no `use`.
fn is_written_out(path: &[String]) -> bool {
    path.first().is_some_and(|first| matches!(first.as_str(), "crate" | "super" | "self"))
}

/// The file of a `mod` line, and where the modules below it stand.
fn module_file(below: &Path, module: &syn::ItemMod) -> (PathBuf, PathBuf) {
    let name = module.ident.to_string();
    let given = module.attrs.iter().find(|attribute| attribute.path().is_ident("path"));
    if let Some(syn::Meta::NameValue(pair)) = given.map(|attribute| &attribute.meta)
        && let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) = &pair.value
    {
        let path = below.join(path.value());
        let parent = path.parent().unwrap_or(below).to_path_buf();
        return (path, parent);
    }
    let plain = below.join(format!("{name}.rs"));
    let path = if plain.is_file() { plain } else { below.join(&name).join("mod.rs") };
    (path, below.join(name))
}

/// Whether what these attributes stand before is compiled for tests alone.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return attribute.path().is_ident("test") };
        let inside = list.tokens.to_string();
        list.path.is_ident("cfg")
            && (inside == "test" || inside.starts_with("all (test") || inside.starts_with("any (test"))
    })
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

impl Module {
    fn take(&mut self, item: &syn::Item) {
        let name = match item {
            syn::Item::Const(item) => Some(&item.ident),
            syn::Item::Enum(item) => Some(&item.ident),
            syn::Item::Fn(item) => Some(&item.sig.ident),
            syn::Item::Static(item) => Some(&item.ident),
            syn::Item::Struct(item) => Some(&item.ident),
            syn::Item::Trait(item) => Some(&item.ident),
            syn::Item::Type(item) => Some(&item.ident),
            syn::Item::Union(item) => Some(&item.ident),
            _ => None,
        };
        self.items.extend(name.map(ToString::to_string));
        if let syn::Item::Use(item) = item {
            self.take_use(&item.tree, &mut Vec::new());
        } else {
            self.visit_item(item);
        }
    }

    fn take_use(&mut self, tree: &syn::UseTree, path: &mut Vec<String>) {
        let mut bring = |name: String, last: Option<String>| {
            let whole: Vec<String> = path.iter().cloned().chain(last).collect();
            if name == "_" {
                self.mentions.push(whole);
            } else {
                self.uses.insert(name, whole);
            }
        };
        match tree {
            syn::UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                self.take_use(&inner.tree, path);
                path.pop();
            }
            syn::UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = path.last().cloned() {
                    bring(last, None);
                }
            }
            syn::UseTree::Name(name) => bring(name.ident.to_string(), Some(name.ident.to_string())),
            syn::UseTree::Rename(name) => {
                let last = (name.ident != "self").then(|| name.ident.to_string());
                bring(name.rename.to_string(), last);
            }
            syn::UseTree::Glob(_) => self.globs.push(path.clone()),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.take_use(tree, path);
                }
            }
        }
    }

    /// Paths and calls in what a macro is given, which is not parsed.
    fn take_tokens(&mut self, tokens: proc_macro2::TokenStream) {
        use proc_macro2::Delimiter;
        use proc_macro2::TokenTree::{Group, Ident, Punct};
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        let mut is_member = false;
        // What stands behind a dot, until it is seen whether it is called or a field.
        let mut member: Option<String> = None;
        for token in tokens {
            let named = member.take();
            match token {
                Ident(word) if colons == 2 && !path.is_empty() => path.push(word.to_string()),
                Ident(word) => {
                    self.mention(&mut path);
                    if is_member {
                        member = Some(word.to_string());
                    } else {
                        path.push(word.to_string());
                    }
                }
                Punct(mark) if mark.as_char() == ':' => {
                    colons += 1;
                    is_member = false;
                    // Only what is called has arguments of types.
                    self.calls.extend(named);
                    continue;
                }
                Punct(mark) => {
                    self.mention(&mut path);
                    is_member = mark.as_char() == '.';
                    colons = 0;
                    continue;
                }
                Group(group) => {
                    self.mention(&mut path);
                    self.calls.extend(named.filter(|_| group.delimiter() == Delimiter::Parenthesis));
                    self.take_tokens(group.stream());
                }
                proc_macro2::TokenTree::Literal(_) => self.mention(&mut path),
            }
            (colons, is_member) = (0, false);
        }
        self.mention(&mut path);
    }

    fn mention(&mut self, path: &mut Vec<String>) {
        if !path.is_empty() {
            self.mentions.push(std::mem::take(path));
        }
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.mentions.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    /// A `use` inside a function.
    fn visit_use_tree(&mut self, tree: &'ast syn::UseTree) {
        let mut inner = Module::default();
        inner.take_use(tree, &mut Vec::new());
        self.mentions.extend(inner.uses.into_values());
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.calls.push(call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.methods.push(item.sig.ident.to_string());
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.methods.push(item.sig.ident.to_string());
        self.trait_methods.push(item.sig.ident.to_string());
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        self.take_tokens(mac.tokens.clone());
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}
