// The weight of each sign when fields, buttons and forms are recognised. One table, so that weights can be compared.

/**
 * The scale: 10 is an unambiguous declaration of the page (type=password), 5 a strong hint, 2 a weak one. Signs against a role are negative. {@link LEAST} has
 * the sums that roles need.
 */
export const WEIGHTS = {
  password: {
    type: 10, // only passwords, codes and PINs are typed hidden
    autocomplete: 6,
    words: 3, // "show password" turns the type into text: then only words tell
  },
  code: {
    autocomplete: 8,
    boxes: 9, // four to eight boxes of one character are always a code
    shape: 3, // numeric and short: also postcodes, so it needs words beside it
    words: 4,
    name: 4,
    around: 2,
    page: 3, // heading or text of a second factor
    hidden: -4, // type=password: more often a password
    against: -10, // postcode, card, coupon, search
  },
  identifier: {
    autocomplete: 6,
    type: 4, // email; half of it for tel
    words: 4,
    name: 4, // page authors write names in English whatever the page's language
    around: 1,
    beforePassword: 4, // the last text field before a password
    onlyOne: 3, // in a form with a password
    against: -10,
    person: -6, // first name, birthday, street: it is a registration
    code: -5,
  },
  submit: {
    submits: 6,
    signIn: 5,
    next: 4,
    send: 3,
    button: 2, // rather than a link
    near: 3, // within NEAR pixels below the last field
    only: 2,
    other: -9, // forgot, register, another service, show password, language
    cancel: -6,
  },
  signUp: {
    secondPassword: 6,
    newPassword: 3, // also on login pages that want to keep password managers out
    confirm: 4,
    submit: 4,
    path: 4,
    person: 4,
    heading: 2,
    terms: 1,
    signIn: -5,
    signInPath: -2,
    currentPassword: -6,
    remember: -3,
    forgot: -3,
  },
  form: {
    password: 6,
    identifier: 3,
    code: 6,
    signInWords: 2,
    dialog: 2, // is in front of the page
    submit: 1,
    newsletter: -6,
  },
} as const

/** Least sum for each role. */
export const LEAST = { password: 6, code: 6, identifier: 4, submit: 4, signUp: 5 } as const

/** Longest distance of the submit button below its last field. */
export const NEAR = 260
