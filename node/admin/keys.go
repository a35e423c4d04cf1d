package admin

import (
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

func (a *API) listKeys(c call) (shown list[Key], err error) {
	owner, err := a.store.Account(c.target)
	if err != nil {
		return shown, err
	}
	keys, err := a.store.Keys(owner.ID)
	if err != nil {
		return shown, err
	}
	charged, err := a.store.KeysCharged(owner.ID, time.Now())
	if err != nil {
		return shown, err
	}
	return listOf(keys, func(k account.Key) Key { return showKey(k, charged) }), nil
}

func (a *API) createKey(c call, asked NewKey) (shown Key, err error) {
	budget, err := asked.Budget.nano("budget")
	if err != nil {
		return shown, err
	}
	owner, err := a.store.Account(c.target)
	if err != nil {
		return shown, err
	}
	c.about.account = owner.ID
	limits := account.KeyLimits{Models: asked.Models, TokensPerMinute: asked.TokensPerMinute, Budget: budget}
	key, secret, err := a.store.CreateKey(owner.ID, limits, asked.Expires)
	if err != nil {
		return shown, err
	}
	c.about.key = key.ID
	a.node.KeyChanged(owner.ID, key.ID)
	made := showKey(key, nil)
	made.Secret = secret
	return made, nil
}

// withCharges shows a key and what of its budget is spent this month.
func (a *API) withCharges(k account.Key) (Key, error) {
	charged, err := a.store.KeysCharged(k.AccountID, time.Now())
	return showKey(k, charged), err
}

func (a *API) showKey(c call) (shown Key, err error) {
	key, err := a.store.Key(c.target)
	if err != nil {
		return shown, err
	}
	return a.withCharges(key)
}

func (a *API) changeKey(c call, change KeyChange) (shown Key, err error) {
	key, err := a.store.Key(c.target)
	if err != nil {
		return shown, err
	}
	c.about.account, c.about.key = key.AccountID, key.ID
	var budget abi.Nano
	if change.Budget != nil {
		if budget, err = change.Budget.nano("budget"); err != nil {
			return shown, err
		}
	}
	key, err = a.store.UpdateKey(key.ID, func(limits *account.KeyLimits) {
		assign(&limits.Models, change.Models)
		assign(&limits.TokensPerMinute, change.TokensPerMinute)
		if change.Budget != nil {
			limits.Budget = budget
		}
	})
	if err != nil {
		return shown, err
	}
	a.node.KeyChanged(key.AccountID, key.ID)
	return a.withCharges(key)
}

// revokeKey ends a key. It answers when all nodes refuse it, or names those that did not say so in time.
func (a *API) revokeKey(c call) (shown Key, err error) {
	key, err := a.store.RevokeKey(c.target)
	if err != nil {
		return shown, err
	}
	c.about.account, c.about.key = key.AccountID, key.ID
	a.node.KeyChanged(key.AccountID, key.ID)
	unaware, err := a.spread(c.ctx, key.AccountID)
	if err != nil {
		return shown, err
	}
	shown, err = a.withCharges(key)
	shown.UnawareNodes = unaware
	return shown, err
}
