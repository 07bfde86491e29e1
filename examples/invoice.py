"""The README's first example: an invoice in, a pydantic object out, on the embedded model."""

from datetime import date
from pathlib import Path

from pydantic import BaseModel

from orion import Orion
from orion.demo import draw_invoice, truth


class Item(BaseModel):
    description: str
    quantity: int
    unit_price: float
    amount: float


class Invoice(BaseModel):
    number: str
    date: date
    seller: str
    buyer: str
    items: list[Item]
    subtotal: float
    vat: float
    total: float
    currency: str


Path("invoice.pdf").write_bytes(draw_invoice(truth()))  # or any PDF, scan or photo of yours

with Orion() as orion:
    result = orion.run("Read this invoice and return its details.", files=["invoice.pdf"], response_format=Invoice)

print(result.output.number, result.output.date, result.output.total, result.output.currency)
for item in result.output.items:
    print(item.quantity, "x", item.description, "=", item.amount)
print(result.stop, "after", len(result.steps), "step,", result.usage.calls, "model call")
