// How much each sign counts when fields, buttons and forms are told apart. One table, so that a weight is compared with the others.

/**
 * The scale: 10 is a declaration of the page that has one meaning (type=password), 5 a strong hint, 2 a weak one. Signs against are negative.
 * {@link LEAST} says what sum a role takes.
 */
export const WEIGHTS = {
  password: {
    type: 10, // nothing else is typed unseen, apart from codes and PINs
    autocomplete: 6,
    words: 3, // "show password" turns the type into text: words must then do
  },
  code: {
    autocomplete: 8,
    boxes: 9, // four to eight boxes of one character are nothing else
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
    type: 4, // email; of tel half of it
    words: 4,
    name: 4, // page authors write names in English whatever the page's language
    around: 1,
    beforePassword: 4, // the last text field before a password
    onlyOne: 3, // of a form with a password
    against: -10,
    person: -6, // first name, birthday, street: a registration
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
    dialog: 2, // what is in front
    submit: 1,
    newsletter: -6,
  },
} as const

/** Least sums for a role. */
export const LEAST = { password: 6, code: 6, identifier: 4, submit: 4, signUp: 5 } as const

/** A button that sends a form is not farther below its last field. */
export const NEAR = 260
