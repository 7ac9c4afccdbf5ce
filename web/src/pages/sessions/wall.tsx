// Every running session as a picture.
export default function Wall() {
  return null
}
