// Counts how often a page has asked for a passkey: what passkeys.js tells, heard in the agent's own world.
;(() => {
  if (Object.hasOwn(globalThis, 'EVENTHeard')) return
  const heard = { count: 0 }
  Object.defineProperty(globalThis, 'EVENTHeard', { value: heard })
  EventTarget.prototype.addEventListener.call(document, 'EVENT', () => heard.count++)
})()
