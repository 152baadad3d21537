//! The modules of a crate, and the targets of the paths in their code.
//!
//! [`Modules::read`] follows the `mod` lines from the crate's root. [`Modules::imports`] resolves each path
//! like rustc for items of the same crate: through `use`, `pub use` and globs to the file that defines the
//! item. An import is a `use`, or a path that begins with `crate`, `super` or `self`. A path that ends at a
//! module, or leads out of the crate, is not an import: a table of commands that calls `cmd::read::handle`
//! may be above commands and beside the modules that they import. Modules and items under `cfg(test)` are
//! ignored. [`Modules::calls`] resolves method calls as far as this is possible without types.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// The maximum number of steps to resolve a name. `use a::b as a` would never end.
const DEEPEST: u32 = 32;

/// Methods of the standard library. Their names do not identify the file that defines them.
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

/// A file of a crate.
pub struct File {
    /// The path below `src`.
    pub name: String,
    /// The number of lines.
    pub lines: usize,
}

/// A module: a file, or a block in a file.
#[derive(Default)]
struct Module {
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// The names that the module defines.
    items: BTreeSet<String>,
    /// The names that a `use` imports, with their paths.
    uses: BTreeMap<String, Vec<String>>,
    /// The paths of glob imports.
    globs: Vec<Vec<String>>,
    /// The paths in the code.
    mentions: Vec<Vec<String>>,
    /// The methods that the module defines.
    methods: Vec<Method>,
    /// The methods of traits among them.
    trait_methods: Vec<String>,
    /// The methods that the module calls.
    calls: Vec<Method>,
    /// The type or trait whose methods are being read.
    of: Vec<String>,
}

/// A defined or called method.
struct Method {
    /// The path of its type or trait. Empty for a call on anything but `self`.
    of: Vec<String>,
    name: String,
}

/// The modules of a crate.
pub struct Modules {
    /// The files.
    pub files: Vec<File>,
    modules: Vec<Module>,
    roots: Vec<usize>,
}

impl Modules {
    /// Reads the modules of the library and of the program in `src`.
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

    /// Reads `path`, whose modules are in `below`.
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

    /// All imports of a file by another.
    pub fn imports(&self) -> BTreeSet<(usize, usize)> {
        let mut found = BTreeSet::new();
        for (own, module) in self.modules.iter().enumerate() {
            let written_out = module.mentions.iter().filter(|path| is_written_out(path));
            for path in module.uses.values().chain(written_out) {
                if let Some(file) = self.defining(own, path, 0).filter(|file| *file != module.file) {
                    found.insert((module.file, file));
                }
            }
            // The names of a glob may come from any module that it imports, so the target is the module
            // itself.
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

    /// The methods of the crate's traits.
    pub fn trait_methods(&self) -> impl Iterator<Item = &String> {
        self.modules.iter().flat_map(|module| &module.trait_methods)
    }

    /// All method calls that identify one other file. For a call on `self`, that is the file that defines the
    /// method of the type. Otherwise it is the only file with a method of that name, if no trait in
    /// `elsewhere` has one.
    pub fn calls(&self, elsewhere: &BTreeSet<String>) -> BTreeSet<(usize, usize)> {
        let mut by_type: BTreeMap<(usize, &str, &str), BTreeSet<usize>> = BTreeMap::new();
        let mut by_name: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for (own, module) in self.modules.iter().enumerate() {
            for method in &module.methods {
                by_name.entry(method.name.as_str()).or_default().insert(module.file);
                if let Some(typed) = self.typed(own, method) {
                    by_type.entry(typed).or_default().insert(module.file);
                }
            }
        }
        let says_where = |name: &str| !COMMON.contains(&name) && !elsewhere.contains(name);
        let mut found = BTreeSet::new();
        for (own, module) in self.modules.iter().enumerate() {
            for call in &module.calls {
                let of_self = self.typed(own, call).and_then(|typed| by_type.get(&typed));
                let name = call.name.as_str();
                let files = of_self.or_else(|| by_name.get(name).filter(|_| says_where(name)));
                let only = files.filter(|files| files.len() == 1).and_then(|files| files.first());
                found.extend(only.filter(|file| **file != module.file).map(|file| (module.file, *file)));
            }
        }
        found
    }

    /// A method of a type of this crate: the file and the name of the type, and the method's name.
    fn typed<'m>(&self, module: usize, method: &'m Method) -> Option<(usize, &'m str, &'m str)> {
        let file = self.defining(module, &method.of, 0)?;
        Some((file, method.of.last()?.as_str(), method.name.as_str()))
    }

    /// The file that defines the target of `path`, starting at `module`. None for a module, and for a target
    /// outside of this crate.
    fn defining(&self, module: usize, path: &[String], depth: u32) -> Option<usize> {
        if depth > DEEPEST {
            return None;
        }
        let (mut at, mut rest) = self.start(module, path);
        // The first name may be that of another crate, which no item here has.
        while let Some((name, behind)) = rest.split_first() {
            if let Some(child) = self.modules[at].children.get(name) {
                (at, rest) = (*child, behind);
                continue;
            }
            return self.named(at, name, behind, depth);
        }
        None
    }

    /// The file that defines `name` in the module `at`, with the rest of the path in `behind`.
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

    /// The module at the end of `path`, if it is one.
    fn module_at(&self, module: usize, path: &[String]) -> Option<usize> {
        let (mut at, rest) = self.start(module, path);
        for name in rest {
            at = *self.modules[at].children.get(name)?;
        }
        (rest.len() < path.len() || at != module).then_some(at)
    }

    /// The module where a path begins, and the rest of the path.
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

/// Whether a path in the code begins at a known module, so that it needs no `use`.
fn is_written_out(path: &[String]) -> bool {
    path.first().is_some_and(|first| matches!(first.as_str(), "crate" | "super" | "self"))
}

/// The file of a `mod` line, and the directory of the modules below it.
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

/// Whether an item with these attributes is compiled for tests only.
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

    /// Finds paths and calls in the tokens of a macro call, which are not parsed.
    fn take_tokens(&mut self, tokens: proc_macro2::TokenStream) {
        use proc_macro2::Delimiter;
        use proc_macro2::TokenTree::{Group, Ident, Punct};
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        let mut is_member = false;
        // The name after a dot, until it is known whether it is a call or a field.
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
                    // Only a call has type arguments.
                    self.call(named);
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
                    self.call(named.filter(|_| group.delimiter() == Delimiter::Parenthesis));
                    self.take_tokens(group.stream());
                }
                proc_macro2::TokenTree::Literal(_) => self.mention(&mut path),
            }
            (colons, is_member) = (0, false);
        }
        self.mention(&mut path);
    }

    /// Adds a call on a value of unknown type.
    fn call(&mut self, name: Option<String>) {
        self.calls.extend(name.map(|name| Method { of: Vec::new(), name }));
    }

    fn mention(&mut self, path: &mut Vec<String>) {
        if !path.is_empty() {
            self.mentions.push(std::mem::take(path));
        }
    }
}

/// The names of a path, without type arguments.
fn segments(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// The path of a type, also behind references. Empty if it has none.
fn type_path(of: &syn::Type) -> Vec<String> {
    match of {
        syn::Type::Path(of) => segments(&of.path),
        syn::Type::Reference(of) => type_path(&of.elem),
        _ => Vec::new(),
    }
}

fn is_self(receiver: &syn::Expr) -> bool {
    matches!(receiver, syn::Expr::Path(receiver) if receiver.path.is_ident("self"))
}

impl<'ast> Visit<'ast> for Module {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.mentions.push(segments(path));
        visit::visit_path(self, path);
    }

    /// Handles a `use` inside a function.
    fn visit_use_tree(&mut self, tree: &'ast syn::UseTree) {
        let mut inner = Module::default();
        inner.take_use(tree, &mut Vec::new());
        self.mentions.extend(inner.uses.into_values());
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let of = if is_self(&call.receiver) { self.of.clone() } else { Vec::new() };
        self.calls.push(Method { of, name: call.method.to_string() });
        visit::visit_expr_method_call(self, call);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let outer = std::mem::replace(&mut self.of, type_path(&item.self_ty));
        visit::visit_item_impl(self, item);
        self.of = outer;
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let outer = std::mem::replace(&mut self.of, vec![item.ident.to_string()]);
        visit::visit_item_trait(self, item);
        self.of = outer;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.methods.push(Method { of: self.of.clone(), name: item.sig.ident.to_string() });
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.methods.push(Method { of: self.of.clone(), name: item.sig.ident.to_string() });
        self.trait_methods.push(item.sig.ident.to_string());
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        self.take_tokens(mac.tokens.clone());
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}
