//! Changes of users by administrators. A change is served and stored, or neither.

use admin::UserChange;
use admin::objects::{Refusal, RefusalKind};

use super::{Control, ServedConfig};
use crate::principals;
use crate::state::store::Store;

impl Control {
    /// Adds or changes a user.
    ///
    /// # Errors
    /// The reason.
    pub(super) fn put_user(&self, change: UserChange) -> Result<(), Refusal> {
        let mut current = self.lock();
        let key = change.name.to_lowercase();
        if let Some(password) = current.plan.config.passwords.get(&key) {
            let (name, variable) = (&change.name, &password.variable);
            let why = format!("the password of `{name}` is in ${variable}; change it there and restart");
            return Err(Refusal::new(RefusalKind::Bad, why));
        }
        let file = current.plan.config.users.get(&key).and_then(|user| user.password_file.as_ref());
        if let Some(file) = file {
            let (name, path) = (&change.name, file.value.display());
            let why = format!("the password of `{name}` is in {path}; change it there and reload");
            return Err(Refusal::new(RefusalKind::Bad, why));
        }
        let name = change.name.clone();
        self.with_user(&mut current, &name, |store| principals::change(store, change))?;
        tracing::info!(user = %name, "user changed");
        Ok(())
    }

    /// Removes a user.
    ///
    /// # Errors
    /// The reason.
    pub(super) fn delete_user(&self, name: &str) -> Result<(), Refusal> {
        let mut current = self.lock();
        let elsewhere = |why: String| Err(Refusal::new(RefusalKind::Conflict, why));
        if current.plan.config.users.contains_key(&name.to_lowercase()) {
            return elsewhere(format!(
                "`{name}` is a user of the configuration file or of variables; remove that [[user]] there \
                 and reload, or the variables and restart"
            ));
        }
        let mut shares = current.plan.config.shares.values();
        let named = shares.find(|share| share.users.contains_key(&name.to_lowercase()));
        if let Some(share) = named {
            let share = &share.name.value;
            return elsewhere(format!(
                "`users` of share `{share}` names `{name}`; remove it there and reload first"
            ));
        }
        self.with_user(&mut current, name, |store| principals::remove(store, name))?;
        tracing::info!(user = %name, "user removed");
        Ok(())
    }

    /// Changes a stored user and applies the change. If one of the two fails, neither is done.
    fn with_user(
        &self,
        current: &mut ServedConfig,
        name: &str,
        change: impl FnOnce(&Store) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let store = self.state.store();
        let before = store.user(name).map_err(|e| Refusal::new(RefusalKind::Failed, e.to_string()))?;
        change(store)?;
        let config = current.plan.config.clone();
        let Err(why) = self.serve(current, config) else { return Ok(()) };
        let undone = match &before {
            Some(user) => store.put_user(user),
            None => store.remove_user(name).map(|_| ()),
        };
        if let Err(error) = undone {
            tracing::error!(%error, user = name, "a user change that could not be undone takes effect with \
                                                  the next change");
        }
        Err(Refusal::new(RefusalKind::Failed, why))
    }
}
