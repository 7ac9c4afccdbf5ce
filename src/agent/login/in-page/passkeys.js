// Refuses passkeys at once, so that a site offers another way. The first part runs in the page's own world before its scripts and leaves nothing there by a name; it tells by an
// event that no page can guess (EVENT). The second part hears it in the world of the agent.
;(() => {
  if (typeof CredentialsContainer !== 'function') return
  const { prototype } = CredentialsContainer
  const originals = { get: prototype.get, create: prototype.create }
  const { dispatchEvent } = EventTarget.prototype
  const { apply, set } = Reflect
  const reject = Promise.reject.bind(Promise)
  const [Failure, Told, Never, addListener] = [DOMException, Event, Promise, EventTarget.prototype.addEventListener]
  const refuse = () =>
    reject(
      new Failure(
        'The operation either timed out or was not allowed. See: https://www.w3.org/TR/webauthn-2/#sctn-privacy-considerations-client.',
        'NotAllowedError',
      ),
    )
  const stand = (name) =>
    new Proxy(originals[name], {
      apply(original, self, given) {
        const [options] = given
        if (typeof options !== 'object' || options === null || !options.publicKey) return apply(original, self, given)
        // A page that only offers passkeys in a list of suggestions waits for one that nobody chooses.
        if (options.mediation === 'conditional') {
          const { signal } = options
          return new Never((_, fail) => {
            if (signal) apply(addListener, signal, ['abort', () => fail(signal.reason), { once: true }])
          })
        }
        apply(dispatchEvent, document, [new Told('EVENT')])
        return refuse()
      },
    })
  for (const name of ['get', 'create']) prototype[name] = stand(name)
  apply(addListener, document, ['EVENTEnd', () => ['get', 'create'].forEach((name) => set(prototype, name, originals[name])), { once: true }])
})()
