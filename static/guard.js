// Where the page's own script did not come, or is too new for the browser, the page reloads by
// itself as it does without scripts. Written for any browser.
setTimeout(function () {
  var still = document.querySelector("noscript");
  if (still && !self.stanchionRuns) document.head.insertAdjacentHTML("beforeend", still.textContent);
}, 1e4);
