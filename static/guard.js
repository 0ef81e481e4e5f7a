// Where the page's own script did not come, or is too new for the browser, the page reloads by
// itself as it does without scripts. Written for any browser.
setTimeout(function () {
  var unused = document.querySelectorAll("noscript");
  for (var i = 0; i < unused.length && !self.stanchionRuns; i++) unused[i].outerHTML = unused[i].textContent;
}, 1e4);
